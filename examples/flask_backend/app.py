"""The backend: `POST /api/projects/PROJECT/memory/index`, `retrieve` and `delete`."""

import os
from typing import Any

from flask import Blueprint, Flask, current_app, request

from treering import InvalidInput, TreeringError

from . import memory

routes = Blueprint("memory", __name__, url_prefix="/api/projects/<project_id>/memory")


def create_app() -> Flask:
    """Return the application. Run it with `flask --app examples.flask_backend.app run`."""
    app = Flask(__name__)
    app.config["MEMORY_SAVE_DIR"] = os.environ.get("MEMORY_SAVE_DIR")
    app.register_blueprint(routes)
    return app


@routes.post("/index")
def index(project_id: str) -> Any:
    """Store the texts in `docs`."""
    return memory.index(project_id, _given("docs"), **_options()).model_dump(mode="json")


@routes.post("/retrieve")
def retrieve(project_id: str) -> Any:
    """Return the documents that answer each of `queries`, at most `num_to_retrieve`."""
    count = _given("num_to_retrieve", 5)
    return {"results": memory.retrieve(project_id, _given("queries"), num_to_retrieve=count, **_options())}


@routes.post("/delete")
def delete(project_id: str) -> Any:
    """Delete the texts in `docs`."""
    return memory.delete(project_id, _given("docs"), **_options()).model_dump(mode="json")


@routes.errorhandler(TreeringError)
def failed(error: TreeringError) -> tuple[dict[str, str], int]:
    """Answer an error with its message and hint."""
    return {"error": error.message, "hint": error.hint}, 400 if isinstance(error, InvalidInput) else 503


def _given(name: str, default: Any = None) -> Any:
    body = request.get_json(silent=True)
    return body.get(name, default) if isinstance(body, dict) else default


def _options() -> dict[str, Any]:
    return {"base_save_dir": current_app.config["MEMORY_SAVE_DIR"], **memory.get_hipporag_kwargs()}
