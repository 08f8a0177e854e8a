import pytest
from graph_parts import passage

from treering.retrieval.index.code_names import names_of_code


def names(language: str, path: str, use: str) -> tuple[str, ...]:
    return names_of_code(passage(uses=(use,), metadata={"path": path, "language": language}), first=False)


@pytest.mark.parametrize(
    ("language", "ending", "use"),
    [
        ("python", "py", "c .hive#count"),
        ("python", "py", "c #Hive.count"),
        ("typescript", "ts", "i ./hive#Hive"),
        ("go", "go", "c #Count"),
        ("rust", "rs", "c crate::hive#count"),
        ("c", "c", "i hive.h#"),
        ("ruby", "rb", "i ./hive#"),
        ("php", "php", "i hive.php#"),
        ("bash", "sh", "i ./hive.sh#"),
    ],
)
def test_a_relative_use_names_a_module_near_its_file(language: str, ending: str, use: str) -> None:
    assert names(language, f"one/src/a.{ending}", use) != names(language, f"two/src/b.{ending}", use)


@pytest.mark.parametrize(
    ("language", "ending", "use"),
    [
        ("python", "py", "c hive.bees#count"),
        ("typescript", "ts", "i hive#Hive"),
        ("go", "go", "c x.org/hive#Count"),
        ("java", "java", "c hive.Bees#Bees.count"),
        ("csharp", "cs", "i Hive.Bees#"),
        ("rust", "rs", "c ?#Hive.count"),
        ("c", "c", "c ?#count_bees"),
    ],
)
def test_an_absolute_use_names_the_same_in_every_file(language: str, ending: str, use: str) -> None:
    assert names(language, f"one/src/a.{ending}", use) == names(language, f"two/src/b.{ending}", use) != ()
