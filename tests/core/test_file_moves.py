from treering.core.evidence import moved_files, moves_by_contents


def test_a_file_of_the_same_name_and_content_has_moved():
    assert moved_files({"file:/a/x.md": "1"}, {"file:/b/x.md": "1"}) == {"file:/a/x.md": "file:/b/x.md"}


def test_other_file_has_not_moved():
    assert moved_files({"file:/a/x.md": "1"}, {"file:/b/y.md": "1", "file:/b/x.md": "2"}) == {}


def test_what_most_files_of_a_folder_did_the_others_did_too():
    gone = {"file:/a/x.md": "1", "file:/a/sub/y.md": "2", "file:/a/z.md": "3"}
    there = {"file:/b/x.md": "1", "file:/b/sub/y.md": "2", "file:/b/z.md": "4", "file:/b/new.md": "5"}
    assert moved_files(gone, there) == {origin: origin.replace("/a/", "/b/") for origin in gone}


def test_half_of_a_folder_does_not_speak_for_the_rest():
    gone = {"file:/a/x.md": "1", "file:/a/y.md": "2"}
    there = {"file:/b/x.md": "1", "file:/b/y.md": "3"}
    assert moved_files(gone, there) == {"file:/a/x.md": "file:/b/x.md"}


def test_an_origin_of_a_folder_and_one_of_a_path_are_compared_part_by_part():
    assert moved_files({"file:/a#docs/x.md": "1"}, {"file:/b/docs/x.md": "1"}) == {
        "file:/a#docs/x.md": "file:/b/docs/x.md"
    }


def test_of_two_copies_the_one_is_chosen_where_most_of_the_folder_is():
    gone = {"file:/a/x.md": "1", "file:/a/y.md": "2"}
    there = {"file:/z/x.md": "1", "file:/b/x.md": "1", "file:/b/y.md": "2"}
    assert moved_files(gone, there) == {"file:/a/x.md": "file:/b/x.md", "file:/a/y.md": "file:/b/y.md"}


def test_files_of_which_there_are_very_many_are_no_sign_of_a_move():
    gone = {f"file:/a/{number}/__init__.py": "empty" for number in range(1_000)}
    there = {f"file:/b/{number}/__init__.py": "empty" for number in range(1_000)}
    assert moved_files(gone, there) == {}


def test_of_several_new_files_with_the_same_contents_each_is_taken_once_and_by_its_name_first():
    gone = {"repo:x#LICENSE": "1", "repo:x#old/a.md": "1", "repo:x#b.md": "2", "repo:x#c.md": ""}
    arrived = {"repo:x#new/LICENSE": "1", "repo:x#new/0.md": "1", "repo:x#new/c.md": ""}
    assert moves_by_contents(gone, arrived) == {
        "repo:x#LICENSE": "repo:x#new/LICENSE",
        "repo:x#old/a.md": "repo:x#new/0.md",
    }
