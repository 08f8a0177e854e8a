"""An OpenAI-compatible endpoint on this machine: chats are answered by a function, embeddings by hashed words."""

import base64
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from treering.testing.fakes import HashingEmbedder


class Endpoint(ThreadingHTTPServer):
    """Notes every request as (path, body). `answer` makes the words of a chat's answer of its last message."""

    daemon_threads = True

    def __init__(self, answer):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.requests = []
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


@contextmanager
def endpoint(answer=lambda prompt: "{}"):
    server = Endpoint(answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, body))
        reply = self._embedded(body) if self.path.endswith("/embeddings") else self._answered(body)
        content = json.dumps({"model": body["model"], **reply}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _answered(self, body):
        text = self.server.answer(body["messages"][-1]["content"])
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        return {"id": "c", "object": "chat.completion", "created": 1, "choices": [choice], "usage": usage}

    def _embedded(self, body):
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        vectors = HashingEmbedder().embed_documents(texts)
        whole = body.get("encoding_format") != "base64"
        data = [
            {
                "object": "embedding",
                "index": at,
                "embedding": vector.tolist() if whole else base64.b64encode(vector.tobytes()).decode(),
            }
            for at, vector in enumerate(vectors)
        ]
        return {"object": "list", "data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}}

    def log_message(self, *_):
        pass
