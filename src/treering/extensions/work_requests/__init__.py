"""Work items for tickets and `TODO` comments, proposed to reviewers."""
