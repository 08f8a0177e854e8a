"""Programs that show how Treering is used."""
