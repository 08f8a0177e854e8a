import json

import pytest
import yaml

from treering.extensions.documents.structured import OpenApiFormat
from treering.ports.adapter import AlreadyRead, ReadLimits, Skipped, SourceDraft
from treering.ports.format import FileToRead, Unreadable
from treering.sources.formats import draft_file
from treering.sources.path import PathAdapter
from treering.testing.format_contract import FileSaying, FormatContract

PETS = {
    "openapi": "3.1.0",
    "info": {"title": "Pet store", "version": "2.0", "description": "Pets to buy."},
    "servers": [{"url": "https://pets.example.org", "description": "production"}],
    "paths": {
        "/pets/{petId}": {
            "parameters": [{"name": "petId", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {
                "operationId": "showPet",
                "summary": "Tell about a pet",
                "parameters": [
                    {"name": "fields", "in": "query", "schema": {"type": "array", "items": {"enum": ["a", 1]}}}
                ],
                "responses": {
                    "200": {
                        "description": "The pet",
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}},
                    },
                    "404": {"$ref": "#/components/responses/Missing"},
                },
                "tags": ["pets"],
            },
            "delete": {"deprecated": True, "responses": {}},
        }
    },
    "webhooks": {"sold": {"post": {"requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}}}}},
    "components": {
        "schemas": {
            "Pet": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": ["string", "null"], "description": "What it is called."},
                    "friends": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}},
                    "kind": {"oneOf": [{"$ref": "#/components/schemas/Cat"}, {"type": "integer", "format": "int32"}]},
                },
            }
        }
    },
}
SWAGGER = {
    "swagger": "2.0",
    "info": {"title": "Old"},
    "host": "old.example.org",
    "basePath": "/v1",
    "paths": {
        "/x": {
            "post": {
                "parameters": [{"in": "body", "name": "b", "schema": {"$ref": "#/definitions/X"}}],
                "responses": {},
            }
        }
    },
    "definitions": {"X": {"type": "string"}},
}


def read(told, path="api.json"):
    data = json.dumps(told).encode() if path.endswith("json") else yaml.safe_dump(told, sort_keys=False).encode()
    return OpenApiFormat().read(data, FileToRead(path, ReadLimits()))


def texts(document):
    return {segment.locator.pointer: segment.text for segment in document.segments}


class TestOpenApiInJson(FormatContract):
    @pytest.fixture
    def format_read(self):
        return OpenApiFormat()

    @pytest.fixture
    def file_saying(self) -> FileSaying:
        def written(text):
            return "api.json", json.dumps({**PETS, "info": {"title": "A", "description": text}}).encode()

        return written


class TestOpenApiInYaml(TestOpenApiInJson):
    @pytest.fixture
    def file_saying(self) -> FileSaying:
        def written(text):
            told = {**PETS, "info": {"title": "A", "description": text}}
            return "docs/api.yaml", yaml.safe_dump(told, sort_keys=False, width=10_000).encode()

        return written


@pytest.mark.parametrize("path", ["api.json", "api.yml"])
def test_each_operation_and_schema_is_a_segment_at_its_pointer(path):
    document = read(PETS, path)
    assert (document.kind, document.title, document.payload["version"]) == ("openapi", "Pet store", "3.1.0")
    found = texts(document)
    assert list(found) == [
        "/info",
        "/paths/~1pets~1{petId}/get",
        "/paths/~1pets~1{petId}/delete",
        "/webhooks/sold/post",
        "/components/schemas/Pet",
    ]
    assert found["/paths/~1pets~1{petId}/get"].splitlines() == [
        "GET /pets/{petId}: Tell about a pet",
        "Parameters:",
        "- petId (path, required, string)",
        "- fields (query, list of one of a, 1)",
        "Responses:",
        "- 200: The pet — Pet",
        "- 404: Missing",
        "Operation: showPet",
        "Tags: pets",
    ]
    assert found["/components/schemas/Pet"].splitlines() == [
        "Pet: object",
        "- name (string or null, required): What it is called.",
        "- friends (list of Pet)",
        "- kind (Cat or integer int32)",
    ]


def test_the_second_version_is_read_too():
    found = texts(read(SWAGGER))
    assert "Server: old.example.org/v1" in found["/info"]
    assert "- b (body, X)" in found["/paths/~1x/post"]
    assert found["/definitions/X"] == "X: string"


def test_operations_are_nodes_that_belong_to_their_interface():
    nodes = read(PETS).nodes
    assert [(node.kind, node.name) for node in nodes] == [
        ("api", "Pet store"),
        ("api", "GET /pets/{petId}"),
        ("api", "DELETE /pets/{petId}"),
        ("api", "POST sold"),
    ]
    assert {node.part_of for node in nodes[1:]} == {"api:pet-store"}
    assert len({node.slug for node in nodes}) == 4


@pytest.mark.parametrize(
    "data",
    [
        b'{"name": "x", "version": "3.1"}',
        b"openapi: 3.1\npaths: [1, 2]\n",
        b"openapi: 3.1.0\n\tx: {",
        b"- openapi: 3\n",
        b'{"openapi": {"3": 1}, "paths": {}}',
    ],
)
def test_what_is_no_description_is_left_to_other_formats(data):
    assert OpenApiFormat().read(data, FileToRead("a.yaml", ReadLimits())) is None


def test_a_description_in_a_folder_is_found_among_other_files(tmp_path):
    (tmp_path / "package.json").write_text('{"name": "x"}')
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(PETS, sort_keys=False))
    found = PathAdapter().read(str(tmp_path), known=AlreadyRead(), limits=ReadLimits(), options={})
    kinds = {reading.title: reading.kind for reading in found if isinstance(reading, SourceDraft)}
    assert kinds == {"package.json": "file", "Pet store": "openapi"}


def test_a_description_of_many_megabytes_in_yaml_is_read_whole(tmp_path):
    described = {f"/x/{at}": {"get": {"description": "It tells about one thing. " * 200}} for at in range(1_000)}
    (tmp_path / "big.yaml").write_text(yaml.dump({**PETS, "paths": described}, Dumper=yaml.CSafeDumper))
    (tmp_path / "data.json").write_text(json.dumps(["a row"] * 400_000))
    assert (tmp_path / "big.yaml").stat().st_size > 5_000_000
    document, other = PathAdapter().read(str(tmp_path), known=AlreadyRead(), limits=ReadLimits(), options={})
    assert isinstance(document, SourceDraft)
    assert sum(one.locator.pointer.startswith("/paths/") for one in document.segments) == 2_000  # each is cut in two
    assert isinstance(other, Skipped)
    assert other.why == "3,600,000 bytes exceed the limit max_file_bytes of 2,000,000"


def test_yaml_that_says_too_much_through_its_aliases_is_reported_and_not_read():
    lines = ["openapi: 3.1.0", "paths: {}", "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    told = OpenApiFormat().read("\n".join(lines).encode(), FileToRead("a.yaml", ReadLimits()))
    assert isinstance(told, Unreadable)
    assert "aliases" in told.why


def test_values_of_yaml_are_what_is_there_and_merged_keys_are_followed():
    text = """
openapi: 3.0
info: {title: Dates, version: 1.10}
x-shared: &shared {in: query, required: true, schema: &text {type: string}}
paths:
  /on:
    get:
      deprecated: true
      parameters:
        - {<<: *shared, name: since, description: 2026-01-02, schema: {<<: [*text], enum: [on, 'off', 2026-01-02, 1e3]}}
      responses: {200: {description: yes}}
"""
    document = OpenApiFormat().read(text.encode(), FileToRead("a.yaml", ReadLimits()))
    assert document.payload == {"version": "3.0", "of": "1.10"}
    assert texts(document)["/paths/~1on/get"].splitlines() == [
        "GET /on",
        "Deprecated.",
        "Parameters:",
        "- since (query, required, string one of on, off, 2026-01-02, 1e3): 2026-01-02",
        "Responses:",
        "- 200: yes",
    ]


def test_a_reference_to_another_place_is_a_name_and_is_not_followed():
    told = {**PETS, "paths": {"/x": {"get": {"responses": {"200": {"$ref": "http://127.0.0.1:1/evil.json#/Pet"}}}}}}
    assert "- 200: Pet" in texts(read(told))["/paths/~1x/get"]


def test_a_secret_in_a_title_or_a_name_is_in_no_node():
    secret = "ghp_" + "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW1xY3"
    told = {**PETS, "info": {"title": f"API {secret}"}, "paths": {f"/x/{secret}": {"get": {"summary": secret}}}}
    data = json.dumps(told).encode()
    draft = draft_file(data, path="a.json", origin="file:/a.json", commit=None, limits=ReadLimits())
    assert isinstance(draft, SourceDraft)
    assert secret not in repr(draft)
