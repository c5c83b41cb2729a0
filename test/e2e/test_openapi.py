"""doc/openapi.json and doc/protocol.md against a running server: every route is there and no other, and
what the server answers is what they say."""

import json
import re
import subprocess

import pytest

from conftest import BINARY, ROOT

DOCUMENT = json.loads((ROOT / "doc/openapi.json").read_text())
PROTOCOL = (ROOT / "doc/protocol.md").read_text()
METHODS = ("get", "post", "put", "delete")
OPERATIONS = [(method.upper(), path) for path, methods in DOCUMENT["paths"].items()
              for method in methods]


def ask(server, method, path, body=None):
    content = "" if body is None else json.dumps(body)
    head = f"{method} {path} HTTP/1.1\r\nHost: HOST\r\n"
    if method != "GET":
        head += f"Content-Type: application/json\r\nContent-Length: {len(content.encode())}\r\n"
    status, headers, text = server.request(f"{head}\r\n{content}")
    return status, headers, text


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    from conftest import Server
    one = Server("--data", tmp_path_factory.mktemp("data") / "data").start()
    yield one
    status = one.stop()
    one.kill()
    assert status == 0, one.said


def resolve(schema):
    while "$ref" in schema:
        _, _, kind, name = schema["$ref"].split("/")
        schema = DOCUMENT["components"][kind][name]
    return schema


def check(value, schema, where="$"):
    """As much of JSON Schema as the file uses."""
    schema = resolve(schema)
    if "anyOf" in schema:
        plain, null = schema["anyOf"]
        assert null == {"type": "null"}
        if value is not None:
            check(value, plain, where)
        return
    assert "enum" not in schema or value in schema["enum"], where
    kinds = {"integer": int, "string": str, "boolean": bool, "array": list, "object": dict}
    kind = kinds.get(schema.get("type"), object)
    assert isinstance(value, kind) and not (kind is int and isinstance(value, bool)), where
    if kind is list:
        for at, member in enumerate(value):
            check(member, schema["items"], f"{where}[{at}]")
    if kind is dict and "properties" in schema:
        assert set(schema.get("required", [])) <= set(value), f"{where}: {value}"
        assert set(value) <= set(schema["properties"]), f"{where}: {value}"
        for name, member in value.items():
            check(member, schema["properties"][name], f"{where}.{name}")


def check_answer(method, path, answer):
    status, headers, text = answer
    responses = DOCUMENT["paths"][path][method.lower()]["responses"]
    assert str(status) in responses, f"{method} {path} answers {status}: {text}"
    (content, described), = resolve(responses[str(status)])["content"].items()
    assert headers["content-type"].split(";")[0] == content
    if content == "application/json":
        check(json.loads(text), described["schema"])
    return status


def test_the_documents_say_what_the_binary_says():
    made = subprocess.run([ROOT / "tools/openapi", "--check", BINARY], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr


def test_the_routes_are_those_of_the_server(server):
    routes = json.loads(ask(server, "GET", "/v1")[2])
    listed = {(route["method"], route["path"].replace("...}", "}")) for route in routes}
    assert listed == set(OPERATIONS)


def named_in_protocol():
    """Every "METHOD /path" of a heading or a table; "/a, b, c" stands for three of them."""
    found = set()
    for method, paths in re.findall(r"^(?:### |\| `)(GET|POST|PUT|DELETE) ([^\n`|]+)", PROTOCOL,
                                    re.MULTILINE):
        first, *more = paths.split("?")[0].strip().split(", ")
        for path in (first, *(first.rsplit("/", 1)[0] + "/" + last for last in more)):
            found.add((method, path))
    return found


def test_the_protocol_names_every_route():
    def plain(path):
        return re.sub(r"{\w+}[^/]*", "{}", path)
    described = {(method, plain(path)) for method, path in named_in_protocol()}
    assert described == {(method, plain(path)) for method, path in OPERATIONS}


@pytest.mark.parametrize("method, path", OPERATIONS, ids=map(" ".join, OPERATIONS))
def test_every_route_answers_as_described(server, method, path):
    """With names of nothing, with an empty object, with nonsense: never anything else."""
    if path == "/v1/events":
        pytest.skip("does not end")
    operation = DOCUMENT["paths"][path][method.lower()]
    if "operationId" not in operation:
        pytest.skip("its fields are not declared yet")
    somewhere = re.sub(r"{\w+}", "1", path)
    assert check_answer(method, path, ask(server, method, somewhere)) < 500
    if method != "GET" and "requestBody" in operation:
        assert check_answer(method, path, ask(server, method, somewhere, {})) < 500
        assert check_answer(method, path, ask(server, method, somewhere, {"nonsense": 1})) < 500
        assert check_answer(method, path, ask(server, method, somewhere, [7])) < 500
    for parameter in operation.get("parameters", []):
        if parameter["in"] == "query" and resolve(parameter["schema"])["type"] == "integer":
            assert check_answer(method, path, ask(server, method,
                                                  f"{somewhere}?{parameter['name']}=x")) < 500


def test_tasks_as_described(server):
    """The document's examples, one after the other."""
    def do(method, path, body=None, where=None):
        answer = ask(server, method, where or path, body)
        return check_answer(method, path, answer), json.loads(answer[2])
    adds = [{"group": "map", "data": "/path/to/file:1024:2048"}, {"group": "map"}]
    status, added = do("POST", "/update", {"clientid": 1643, "adds": adds})
    assert status == 200
    first, second = (task["id"] for task in added["tasks"])
    assert do("GET", "/groups") == (200, ["map"])
    assert do("GET", "/task/{id}", where=f"/task/{first}") == (200, added["tasks"][0])
    assert do("GET", "/task/{id}", where="/task/999999")[0] == 404
    assert do("GET", "/task/{id}", where="/task/x")[0] == 400
    assert do("GET", "/tasks/{ids}", where=f"/tasks/{second},999999")[1] == [added["tasks"][1], None]
    status, claimed = do("POST", "/claim", {"clientid": 1532, "group": "map", "duration": 60000,
                                            "depends": [first, second]})
    assert status == 200 and len(claimed["tasks"]) == 1
    assert len(do("GET", "/group/{name}", where="/group/map")[1]) == 1
    assert len(do("GET", "/group/{name}", where="/group/map?owned=true")[1]) == 2
    mine = claimed["tasks"][0]["id"]
    status, refused = do("POST", "/update", {"clientid": 1, "deletes": [mine, 999999],
                                             "depends": [999998]})
    assert status == 409 and len(refused["errors"]) == 3
    assert do("POST", "/update", {"clientid": 1532, "deletes": [mine]})[0] == 200
    assert do("POST", "/claim", {"clientid": 1532, "group": "none", "duration": 1}) == (
        200, {"tasks": []})


def test_what_is_no_route(server):
    assert ask(server, "GET", "/nowhere")[0] == 404
    status, headers, _ = ask(server, "DELETE", "/groups")
    assert status == 405 and "GET" in headers["allow"]
