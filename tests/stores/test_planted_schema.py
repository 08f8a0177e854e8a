"""A file of a space that somebody else prepared: what SQLite would run in it by itself is not run."""

import apsw

from space_parts import note, open_space


def test_a_trigger_in_the_file_of_a_space_is_not_run(tmp_path):
    address = f"sqlite:{tmp_path / 'space.db'}"
    with open_space(address) as space:
        first = note(space, "Bees hum.")
    planted = apsw.Connection(str(tmp_path / "space.db"))
    planted.execute("CREATE TRIGGER planted AFTER INSERT ON audit BEGIN DELETE FROM objects; DELETE FROM texts; END")
    planted.close()
    with open_space(address) as space:
        second = note(space, "Wasps sting.")
        for kept in (first, second):
            assert space.query("page", input={"id": kept["source_id"]}).object["id"] == kept["source_id"]
        assert space.lint("audit").verified
