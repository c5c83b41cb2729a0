"""The OpenAPI document and doc/protocol.md against a running server: every route is in them and no
other, every documented reply is compared with a real one, and every example is run."""

import json
import re
import shutil
import subprocess
from urllib.parse import quote

import pytest

import npm
from conftest import BINARY, ROOT, Server

DOCUMENT = json.loads((ROOT / "doc/openapi.json").read_text())
PROTOCOL = (ROOT / "doc/protocol.md").read_text()
OPERATIONS = [(method.upper(), path) for path, methods in DOCUMENT["paths"].items()
              for method in methods]
LINTERS = ["@redocly/cli@2.73.0", "@seriousme/openapi-schema-validator@2.11.0"]
NO_SESSION = "0" * 48

# What only a fault, a second server or ten thousand sessions bring about: other tests do
# (test_task_ensemble, test_dag_ensemble, test_ensemble, test_task_durable, test_sessions).
ELSEWHERE = {"307", "429", "500", "503", "507"}


def operation(method, path):
    return DOCUMENT["paths"][path][method.lower()]


def ask(server, method, path, body=None, head="", content_type="application/json", host="HOST", length=None):
    content = "" if body is None else body if isinstance(body, str) else json.dumps(body)
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{head}"
    if method != "GET":
        head += f"Content-Type: {content_type}\r\nContent-Length: {length or len(content)}\r\n"
    return server.request(f"{head}\r\n{content}")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
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
    """As much of JSON Schema as the document uses."""
    schema = resolve(schema)
    if "anyOf" in schema:
        plain, null = schema["anyOf"]
        assert null == {"type": "null"}
        if value is not None:
            check(value, plain, where)
        return
    assert "enum" not in schema or value in schema["enum"], f"{where}: {value}"
    kinds = {"integer": int, "string": str, "boolean": bool, "array": list, "object": dict,
             "number": (int, float)}
    kind = kinds.get(schema.get("type"), object)
    assert isinstance(value, kind) and not (kind is int and isinstance(value, bool)), f"{where}: {value}"
    if kind is list:
        for at, member in enumerate(value):
            check(member, schema["items"], f"{where}[{at}]")
    if kind is dict:
        more = schema.get("additionalProperties")
        known = schema.get("properties", {})
        assert set(schema.get("required", [])) <= set(value), f"{where}: {value}"
        assert "properties" not in schema or isinstance(more, dict) or set(value) <= set(known), f"{where}: {value}"
        for name, member in value.items():
            if name in known or isinstance(more, dict):
                check(member, known.get(name, more), f"{where}.{name}")


def check_answer(method, path, answer):
    status, headers, text = answer
    responses = operation(method, path)["responses"]
    assert str(status) in responses, f"{method} {path} answers {status}: {text}"
    (content, described), = resolve(responses[str(status)])["content"].items()
    assert headers["content-type"].split(";")[0] == content
    if content == "application/json":
        check(json.loads(text), described["schema"], f"{method} {path} {status}")
    return status


# The documents.

def test_the_documents_say_what_the_binary_says():
    made = subprocess.run([ROOT / "tools/openapi", "--check", BINARY], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr


def test_the_server_lists_the_same_routes(server):
    routes = json.loads(ask(server, "GET", "/v1")[2])
    assert {(route["method"], route["path"].replace("...}", "}")) for route in routes} == set(OPERATIONS)


def test_every_operation_is_described():
    ids = [operation(*each).get("operationId") for each in OPERATIONS]
    assert len(set(ids)) == len(ids) and None not in ids
    assert all(re.fullmatch("[a-z][A-Za-z]+", each) for each in ids)
    for method, path in OPERATIONS:
        described = operation(method, path)
        assert described["tags"][0] in [tag["name"] for tag in DOCUMENT["tags"]]
        assert described["summary"] and not described["summary"].endswith(".")
        assert all(p["description"] for p in described.get("parameters", []))


def test_no_two_paths_are_the_same():
    plain = [re.sub(r"{\w+}", "{}", path) for path in DOCUMENT["paths"]]
    assert len(set(plain)) == len(plain)


@pytest.mark.parametrize("method, path", OPERATIONS, ids=map(" ".join, OPERATIONS))
def test_the_example_of_a_body_fits_its_schema(method, path):
    body = operation(method, path).get("requestBody")
    if not body:
        return
    if "application/octet-stream" in body["content"]:
        return
    content = body["content"]["application/json"]
    assert "example" in content or not body["required"], "a body that is required has an example"
    if "example" in content:
        check(content["example"], content["schema"])


def test_the_protocol_describes_every_route():
    named = re.findall(r"^<!-- (GET|POST|PUT|PATCH|DELETE) (\S+) -->$", PROTOCOL, re.MULTILINE)
    assert sorted(named) == sorted(OPERATIONS)


@pytest.mark.slow
def test_the_linters_accept_the_document(tmp_path):
    """Installed from the npm registry, in fixed versions."""
    if not shutil.which("npm"):
        pytest.skip("there is no npm")
    modules = npm.install(tmp_path, *LINTERS)
    document = ROOT / "doc/openapi.json"
    for command in ([modules / ".bin/redocly", "lint", document], [modules / ".bin/validate-api", document]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True,
                              env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "REDOCLY_TELEMETRY": "off"})
        assert done.returncode == 0, done.stdout + done.stderr


def fill(path, /, **names):
    """The path with its parameters: those that are given, the first choice, or 1."""
    described = [operation(method, path) for method, each in OPERATIONS if each == path][0]
    for parameter in described.get("parameters", []):
        if parameter["in"] == "path":
            names.setdefault(parameter["name"], parameter["schema"].get("enum", ["1"])[0])
    return path.format(**{name: quote(str(value), safe="") for name, value in names.items()})


# What every route answers.

@pytest.mark.parametrize("method, path", OPERATIONS, ids=map(" ".join, OPERATIONS))
def test_what_every_route_refuses(server, method, path):
    somewhere = fill(path)
    described = operation(method, path)

    def refused(status, *arguments, **options):
        if takes_bytes:
            options.setdefault("content_type", "application/octet-stream")
        answer = ask(server, method, *arguments, **options)
        assert check_answer(method, path, answer) == status, answer
        return json.loads(answer[2])
    content = described.get("requestBody", {}).get("content", {})
    takes_bytes = "application/octet-stream" in content
    body = {} if method != "GET" and "application/json" in content else None
    answer = refused(400, f"{somewhere}?nonsense=1", body)
    assert answer["code"] == "BAD_ARGUMENT" and answer["field"] == "nonsense"
    refused(421, somewhere, host="elsewhere")
    refused(431, somewhere, head=f"X: {'x' * 20000}\r\n")
    if method != "GET":
        refused(413, somewhere, length=999999999)
        refused(415, somewhere, "{}", content_type="text/plain")
    if body is not None and "properties" in content["application/json"]["schema"]:
        assert refused(400, somewhere, {"nonsense": 1})["field"] == "nonsense"
        refused(400, somewhere, [7])
        refused(400, somewhere, "{")
    for parameter in described.get("parameters", []):
        if parameter["in"] == "query" and parameter["schema"].get("type") == "integer":
            answer = refused(400, f"{somewhere}?{parameter['name']}=x", body)
            assert answer["field"] == parameter["name"]


def test_every_route_but_healthz_wants_the_token(tmp_path):
    (tmp_path / "token").write_text("secret-secret-secret\n")
    guarded = Server("--data", tmp_path / "data", "--token-file", tmp_path / "token").start()
    for method, path in OPERATIONS:
        answer = ask(guarded, method, fill(path))
        if path == "/healthz":
            assert answer[0] == 200
        else:
            assert check_answer(method, path, answer) == 401 and json.loads(answer[2])["code"] == "NO_TOKEN"
    assert guarded.stop() == 0


# Every documented reply.

class Story:
    """Calls routes; each answer must have the expected status and the documented fields."""

    def __init__(self, server):
        self.server, self.seen = server, set()

    def __call__(self, status, method, path, /, body=None, query="", **names):
        content = operation(method, path).get("requestBody", {}).get("content", {})
        more = {"content_type": "application/octet-stream"} if "application/octet-stream" in content else {}
        answer = ask(self.server, method, fill(path, **names) + query, body, **more)
        assert check_answer(method, path, answer) == status, (method, path, names, query, body, answer)
        self.seen.add((method, path, str(status)))
        return json.loads(answer[2]) if answer[1]["content-type"] == "application/json" else None

    def session(self):
        return self(200, "POST", "/v1/sessions", {"timeout": 60000})["session"]


def tell_of_the_server(say):
    for path in ("/v1", "/v1/openapi.json", "/healthz", "/readyz", "/metrics"):
        say(200, "GET", path)
    words = say(200, "GET", "/v1/keeper/commands")["commands"]
    one = "/v1/keeper/commands/{command}"
    for word in words:
        say(200, word["method"], one, {} if word["method"] == "POST" else None, command=word["command"])
    for method, body, unfit in (("GET", None, "crst"), ("POST", {}, "ruok")):
        say(404, method, one, body, command="nope")
        say(400, method, one, body, command=unfit)
    session = say.session()
    for method in ("GET", "PUT", "DELETE"):
        say(200, method, "/v1/sessions/{id}", id=session)
        say(410, method, "/v1/sessions/{id}", id=NO_SESSION)


def tell_of_rights(say):
    made = say(200, "POST", "/v1/tokens", {"roles": ["work"], "groups": ["mail/*"], "lifetime": 1000})
    assert [each["id"] for each in say(200, "GET", "/v1/tokens")["tokens"]] == [made["id"]]
    say(200, "DELETE", "/v1/tokens/{id}", id=made["id"])
    say(404, "DELETE", "/v1/tokens/{id}", id=made["id"])
    say(200, "GET", "/v1/identity")


def tell_of_tasks(say):
    added = say(200, "POST", "/update", {"clientid": 1, "adds": [{"group": "a/b", "data": "x"}]})["tasks"]
    assert say(200, "GET", "/groups") == ["a/b"]
    assert say(200, "GET", "/task/{id}", id=added[0]["id"]) == added[0]
    say(404, "GET", "/task/{id}", id=999999)
    say(200, "GET", "/tasks/{ids}", ids="1,999999")
    assert say(200, "GET", "/group/{name}", name="a/b", query="?owned=1&limit=3") == added
    claim = {"clientid": 1, "group": "a/b", "duration": 1000}
    say(200, "POST", "/claim", claim)
    say(409, "POST", "/claim", claim | {"depends": [999999]})
    refused = say(409, "POST", "/update", {"clientid": 2, "deletes": [999999], "depends": [999998]})
    assert len(refused["errors"]) == 2 and refused["code"] == "REFUSED"


def tell_of_groups(say):
    group, task = "/v1/groups/{group}", "/v1/tasks/{id}"
    say(200, "PUT", group, {"limit": 5, "keep_done": 60000}, group="settled")
    say(200, "GET", group, group="settled")
    [one] = say(200, "POST", "/update", {"clientid": 1, "adds": [{"group": "settled", "key": "k"}]})["tasks"]
    say(200, "GET", "/v1/groups")
    say(200, "GET", "/v1/tasks", query="?group=settled")
    say(200, "POST", "/update", {"clientid": 1, "finishes": [{"id": one["id"], "result": "r"}]})
    say(200, "GET", task, id=one["id"])
    say(404, "GET", task, id=999999)
    say(200, "GET", task + "/wait", id=one["id"])
    say(404, "GET", task + "/wait", id=999999)
    say(200, "POST", "/v1/tasks/bulk", {"action": "delete", "filter": {"group": "settled"}})
    say(200, "DELETE", group, group="settled")
    say(404, "DELETE", group, group="settled")


def tell_of_schedules(say):
    one, node = "/v1/schedules/{name}", {"metadata": {"type": "command"}, "data": {"command": "true"}}
    made = say(200, "PUT", one, {"every": 3600000, "task": {"group": "hourly"}}, name="tick")
    assert len(made["times"]) == 5
    [parent] = say(200, "POST", "/v1/nodes", [node])
    below = node | {"metadata": {"type": "command", "parents": [parent["id"]]}}
    say(200, "PUT", one, {"cron": "@daily", "timezone": "Europe/Berlin", "graph": [below]}, name="tree")
    assert len(say(200, "GET", "/v1/schedules")["schedules"]) == 2
    say(200, "GET", one, name="tick")
    for verb in ("run", "pause", "resume"):
        say(200, "POST", one + "/" + verb, {}, name="tick")
        say(404, "POST", one + "/" + verb, {}, name="nope")
    say(200, "DELETE", "/v1/nodes/{id}", id=parent["id"])
    say(409, "POST", one + "/run", {}, name="tree")
    say(200, "DELETE", one, name="tick")
    say(404, "DELETE", one, name="tick")
    say(404, "GET", one, name="tick")



def say_output(say, one, mine, run, ids):
    """What a run prints and reads."""
    output, stdin = one + "/output", one + "/stdin"
    agent = f"?clientid=7&attempt={run['attempt']}"
    say(200, "GET", output, id=mine)
    say(404, "GET", output, id=999999)
    say(200, "POST", output, "", id=mine, query=agent)
    say(404, "POST", output, "", id=999999, query=agent)
    say(409, "POST", output, "", id=mine, query="?clientid=8&attempt=1")
    say(404, "POST", stdin, "", id=999999)
    say(409, "POST", stdin, "", id=mine)
    say(404, "GET", stdin, id=999999, query=agent)
    say(409, "GET", stdin, id=mine, query=agent)
    [cat] = say(200, "POST", "/v1/nodes", [{"metadata": {"type": "command", "group": "far"},
                                            "data": {"command": "cat", "attach": True}}])
    [task] = say(200, "POST", "/claim", {"clientid": 7, "group": "far", "duration": 60000,
                                         "wait": 20000})["tasks"]
    say(200, "POST", one + "/start", {"clientid": 7, "task": task["id"]}, id=cat["id"])
    say(200, "POST", stdin, "x", id=cat["id"])
    say(200, "GET", stdin, id=cat["id"], query="?clientid=7&attempt=1")
    say(200, "POST", stdin, "", id=cat["id"], query="?at=1&end=1")
    say(410, "GET", stdin, id=cat["id"], query="?clientid=7&attempt=1&at=1")
    say(200, "POST", "/v1/agent/done", {"clientid": 7, "node": cat["id"], "attempt": 1})


def tell_of_nodes(say):
    node = {"metadata": {"type": "command"}, "data": {"command": "true"}}
    ids = [each["id"] for each in say(200, "POST", "/v1/nodes", [node, node, node])]
    say(200, "GET", "/v1/nodes", query="?state=incipient")
    page = say(200, "GET", "/v1/nodes", query="?limit=1")["pagination"]
    one = "/v1/nodes/{id}"
    say(200, "GET", one, id=ids[0])
    say(404, "GET", one, id=999999)
    for path in (one + "/data", one + "/data/{key}"):
        more = {"key": "note"} if "key" in path else {}
        say(404, "GET", path, id=999999, **more)
    value = one + "/data/{key}"
    put = say(200, "PUT", value, {"value": "text"}, id=ids[0], key="note")["pagination"]
    say(200, "GET", value, id=ids[0], key="note")
    say(200, "GET", one + "/data", id=ids[0])
    say(404, "PUT", value, {"value": 1}, id=999999, key="note")
    say(409, "PUT", value, {"value": 1}, id=ids[0], key="stdout")
    say(410, "PUT", value, {"value": "x"}, id=ids[0], key="note", query=f"?start=4&pid={int(put['pid']) + 1}")
    say(410, "GET", value, id=ids[0], key="note", query=f"?start=1&pid={int(put['pid']) + 1}")
    keys = say(200, "GET", one + "/data", id=ids[0], query="?limit=1")["pagination"]
    say(200, "PUT", value, {"value": 1}, id=ids[0], key="another")
    say(410, "GET", one + "/data", id=ids[0], query=f"?limit=1&start={keys['next']}&pid={keys['pid']}")
    say(200, "GET", "/v1/scheduler")
    [task] = say(200, "POST", "/claim", {"clientid": 7, "group": "drover/run", "duration": 60000,
                                         "wait": 20000})["tasks"]
    mine = str(json.loads(task["data"])["node"])
    start, done = one + "/start", "/v1/agent/done"
    run = say(200, "POST", start, {"clientid": 7, "task": task["id"]}, id=mine)
    say(404, "POST", start, {"clientid": 7, "task": task["id"]}, id=999999)
    say(409, "POST", start, {"clientid": 8, "task": task["id"]}, id=mine)
    say(409, "DELETE", one, id=mine)
    say(200, "GET", "/v1/agent/kills", query="?clientid=7&after=0")
    say_output(say, one, mine, run, ids)
    end = {"clientid": 7, "node": mine, "attempt": run["attempt"], "status": 1}
    say(409, "POST", done, end | {"clientid": 8})
    say(404, "POST", done, end | {"node": "999999"})
    say(200, "POST", done, end)
    other = next(each for each in ids if each != mine)
    say(200, "PATCH", one, {"priority": 1, "name": "x"}, id=other)
    say(404, "PATCH", one, {"priority": 1}, id=999999)
    say(409, "PATCH", one, {"priority": 1}, id=mine)
    for verb in ("kill", "retry"):
        say(404, "PUT", f"/v1/scheduler/{verb}", query="?id=999999")
    say(404, "GET", "/v1/scheduler/wait", query="?id=999999")
    say(409, "PUT", "/v1/scheduler/retry", query=f"?id={other}")
    say(200, "PUT", "/v1/scheduler/kill", query=f"?id={other}")
    say(200, "PUT", "/v1/scheduler/retry", query=f"?id={other}")
    say(200, "GET", "/v1/scheduler/wait", query=f"?id={mine}&timeout=0")
    say(200, "DELETE", one, id=mine)
    say(404, "DELETE", one, id=mine)
    say(410, "GET", "/v1/nodes", query=f"?limit=1&start={page['next']}&pid={page['pid']}")


def tell_of_agents(say):
    agent = {"host": "m1", "groups": ["gpu"], "jobs": 4, "lease": 15000, "labels": {"os": "x"}}
    say(200, "PUT", "/v1/agents/{clientid}", agent, clientid=7)
    say(200, "GET", "/v1/agents", query="?group=gpu")
    say(200, "PUT", "/v1/agents/{clientid}/drain", {"drain": True}, clientid=7)
    say(404, "PUT", "/v1/agents/{clientid}/drain", {"drain": True}, clientid=99)


def tell_of_runs(say):
    node = {"metadata": {"type": "command"}, "data": {"command": "true"}}
    run = say(200, "POST", "/v1/runs", {"name": "build", "nodes": [node], "keep_going": True})["run"]
    say(200, "GET", "/v1/runs", query="?state=running&limit=1")
    one = "/v1/runs/{run}"
    say(200, "GET", one, run=run)
    say(404, "GET", one, run="none")
    say(409, "DELETE", one, run=run)
    say(404, "DELETE", one, run="none")
    say(200, "PUT", "/v1/scheduler/kill", query=f"?id={run}")
    say(200, "DELETE", one, run=run)
    say(200, "POST", "/v1/runs/prune", {"keep": 0})


def tell_of_worlds(say):
    say(200, "POST", "/v1/worlds", {"world": "build"})
    assert say(200, "GET", "/v1/worlds") == {"worlds": ["build"]}
    tasks, session, other = "/v1/worlds/{world}/tasks", say.session(), say.session()
    task = {"task": {"name": "n", "type": "t"}}
    say(200, "POST", tasks, task, world="build")
    say(404, "POST", tasks, task, world="none")
    say(200, "POST", "/v1/worlds", {"world": "other"})
    say(409, "POST", tasks, task, world="other")
    for path in (tasks, "/v1/worlds/{world}/tree"):
        say(200, "GET", path, world="build")
        say(404, "GET", path, world="none")
    one = tasks + "/{path}"
    say(200, "GET", one, world="build", path="n_t")
    say(404, "GET", one, world="build", path="m_t")
    claim, named = "/v1/worlds/{world}/claim", {"session": session, "types": ["t"]}
    say(404, "POST", claim, named, world="none")
    say(410, "POST", claim, named | {"session": NO_SESSION}, world="build")
    node = say(200, "POST", claim, named, world="build")["node"]
    say(409, "DELETE", one, world="build", path="n_t")
    for verb in ("fail", "release", "complete"):
        path, body = f"/v1/worlds/{{world}}/{verb}", {"session": session, "node": node}
        say(404, "POST", path, body, world="none")
        say(410, "POST", path, body | {"session": NO_SESSION}, world="build")
        say(409, "POST", path, body | {"session": other}, world="build")
        say(200, "POST", path, body, world="build")
        say(200, "POST", claim, named, world="build")
    retry = "/v1/worlds/{world}/retry"
    say(409, "POST", retry, {"node": node}, world="build")
    say(200, "POST", tasks, task, world="build")
    say(200, "POST", claim, named, world="build")
    say(200, "POST", "/v1/worlds/{world}/fail", {"session": session, "node": node, "final": True}, world="build")
    say(200, "GET", tasks, world="build", query="?state=failed")
    say(200, "POST", retry, {"node": node}, world="build")
    say(200, "DELETE", one, world="build", path="n_t")
    say(404, "DELETE", one, world="build", path="n_t")
    say(404, "POST", retry, {"node": node}, world="build")


def tell_of_queues(say):
    queue = say(200, "POST", "/v1/queues", {})["queue"]
    say(200, "POST", "/v1/queues", {"queue": "named"})
    say(409, "POST", "/v1/queues", {"queue": "named"})
    say(200, "GET", "/v1/queues")
    one, messages = "/v1/queues/{queue}", "/v1/queues/{queue}/messages"
    say(200, "GET", one, queue=queue)
    say(200, "POST", messages, {"data": "m"}, queue=queue)
    say(200, "GET", messages, queue=queue)
    for path in ("/v1/posted", "/v1/workers", "/v1/keeper"):
        say(200, "GET", path)
    say(200, "DELETE", one, queue=queue)
    for method, path, body in (("GET", one, None), ("DELETE", one, None), ("GET", messages, None),
                               ("POST", messages, {"data": "m"})):
        say(404, method, path, body, queue=queue)


def tell_of_batches(say):
    bid = say(200, "POST", "/v1/batches", {"submission": {"batchID": "u-1"}})["batch"]
    say(409, "POST", "/v1/batches", {"submission": {"batchID": "u-1"}})
    say(410, "POST", "/v1/batches", {"submission": {}, "session": NO_SESSION})
    say(200, "GET", "/v1/batches", query="?uuid=u-1")
    say(404, "GET", "/v1/batches", query="?uuid=none")
    for kind, more in (("/v1/batches", {}), ("/v1/jobs", {"state": "Pending"}), ("/v1/access/{queue}", {})):
        session = say.session()
        say(200, "POST", f"{kind}/acquire", {"session": session, **more})
        say(200, "DELETE", "/v1/sessions/{id}", id=session)
        say(410, "POST", f"{kind}/acquire", {"session": NO_SESSION, **more})
    say(200, "POST", "/v1/batches/fsck", {"repair": False})
    for kind in ("/v1/batches", "/v1/jobs", "/v1/access/{queue}"):
        say(200, "GET", f"{kind}/counts")
        say(200, "POST", f"{kind}/purge", {"age": 60000})
    jobs = "/v1/batches/{bid}/jobs"
    jid = say(200, "POST", jobs, {"configuration": {"profile_name": "p"}}, bid=bid)["job"]
    say(404, "POST", jobs, {"configuration": {}}, bid="bid9999999999")
    say(200, "GET", "/v1/jobs", query=f"?batch={bid}")
    say(200, "POST", "/v1/jobs/release", {"profile": "p"})
    say(200, "GET", "/v1/machines")
    say(404, "GET", "/v1/jobs", query="?batch=bid9999999999")
    say(200, "GET", "/v1/legacy", query="?path=/jobs")
    say(200, "POST", "/v1/legacy", {"path": "/jobs"})
    say(404, "GET", "/v1/legacy", query="?path=/none")
    say(404, "POST", "/v1/legacy", {"path": "/none"})
    for field, value in (("priority", 80), ("space_needed", 1), ("space", 2), ("identifiers", {"a": "b"}),
                         ("metadata", {"a": "b"}), ("inventory", {"a": "b"}), ("store", {"a": "b"})):
        path = "/v1/jobs/{jid}/" + field
        say(200, "PUT", path, value, jid=jid)
        say(409, "PUT", path, {field: value, "token": 1}, jid=jid)
        say(404, "PUT", "/v1/jobs/{jid}/" + field, value, jid="jid9999999999")
    move_items(say, "/v1/jobs/{jid}", {"jid": "jid9999999999"}, {"jid": jid})
    say(409, "POST", jobs, {"configuration": {}}, bid=bid)
    bid = say(200, "POST", "/v1/batches", {"submission": {"batchID": "u-2"}})["batch"]
    move_items(say, "/v1/batches/{bid}", {"bid": "bid9999999999"}, {"bid": bid})
    item = say(200, "POST", "/v1/access/{queue}", {"token": "t"})["access"]
    say(200, "GET", "/v1/access/{queue}")
    token = "/v1/access/{queue}/{id}/token"
    say(200, "PUT", token, {"url": "u"}, id=item)
    say(409, "PUT", token, {"value": {"url": "u"}, "token": 1}, id=item)
    say(404, "PUT", token, {"url": "u"}, id="qid9999999999")
    move_items(say, "/v1/access/{queue}/{id}", {"id": "qid9999999999"}, {"id": item})


def move_items(say, one, none, there):
    """A batch, a job or an access item, from its first state to its end."""
    say(200, "GET", one, **there)
    say(404, "GET", one, **none)
    say(409, "DELETE", one, **there)
    state = one + "/state"
    say(410, "PUT", state, {"state": "next", "session": NO_SESSION}, **there)
    say(409, "PUT", state, {"state": "next", "token": 1}, **there)
    for verb in ("hold", "release", "requeue"):
        if f"{one}/{verb}" in DOCUMENT["paths"]:
            say(404, "POST", f"{one}/{verb}", {}, **none)
            say(410, "POST", f"{one}/{verb}", {"session": NO_SESSION}, **there)
    if f"{one}/hold" in DOCUMENT["paths"]:
        say(409, "POST", f"{one}/release", {}, **there)
        say(200, "POST", f"{one}/hold", {}, **there)
        say(409, "POST", f"{one}/hold", {}, **there)
        say(200, "POST", f"{one}/release", {}, **there)
    say(404, "PUT", state, {"state": "next"}, **none)
    say(200, "PUT", state, {"state": "next"}, **there)
    if f"{one}/requeue" in DOCUMENT["paths"]:
        say(409, "POST", f"{one}/requeue", {}, **there)
        say(200, "PUT", state, {"state": "fail"}, **there)
        say(200, "POST", f"{one}/requeue", {}, **there)
    for _ in range(20):
        answer = ask(say.server, "PUT", fill(state, **there), {"state": "next"})
        if answer[0] != 200:
            break
    say(200, "DELETE", one, **there)
    say(404, "DELETE", one, **there)


def tell_of_locks(say):
    one, session = "/v1/locks/{kind}/{name}", say.session()
    lock = {"kind": "queue", "name": "ingest"}
    token = say(200, "PUT", one, {"session": session, "who": "me"}, **lock)["token"]
    say(409, "PUT", one, {"session": say.session()}, **lock)
    say(410, "PUT", one, {"session": NO_SESSION}, kind="storage", name="b")
    say(200, "GET", "/v1/locks")
    say(200, "GET", "/v1/locks/{kind}", kind="queue")
    say(200, "GET", one, **lock)
    say(409, "DELETE", one, query=f"?token={token + 1}", **lock)
    say(410, "DELETE", one, {"session": NO_SESSION}, **lock)
    say(200, "DELETE", one, query=f"?token={token}", **lock)
    for method in ("GET", "DELETE"):
        say(404, method, one, query="?force=1" if method == "DELETE" else "", **lock)
    for method, path, body in (("GET", "/v1/locks/{kind}", None), ("PUT", one, {})):
        say(404, method, path, body, kind="none", **({"name": "a"} if "name" in path else {}))


def test_every_documented_reply(tmp_path):
    server = Server("--data", tmp_path / "data", "--jobs", 0, "--pipeline", "storing").start()
    say = Story(server)
    for tell in (tell_of_the_server, tell_of_rights, tell_of_tasks, tell_of_groups, tell_of_schedules,
                 tell_of_nodes, tell_of_runs, tell_of_agents, tell_of_worlds, tell_of_queues,
                 tell_of_batches, tell_of_locks):
        tell(say)
    server.stop()
    wanted = {(*each, status) for each in OPERATIONS for status in operation(*each)["responses"]
              if status in ("200", "404", "409", "410")}
    elsewhere = {("GET", "/v1/events", "200"), ("POST", "/v1/legacy", "409"),  # test_http, test_batch
                 ("GET", "/v1/backup", "200"), ("GET", "/v1/backup", "409"),  # test_backup
                 ("PUT", "/v1/agents/{clientid}", "409"),  # needs 10,000 agents
                 ("GET", "/v1/nodes/{id}/output", "410")}  # test_output
    missing = sorted(wanted - say.seen - elsewhere)
    assert not missing, "\n".join(map(" ".join, missing))


# The examples.

def examples():
    """Each json block of the protocol: the route above it, and the body."""
    for section in re.split(r"^### ", PROTOCOL, flags=re.MULTILINE)[1:]:
        route = re.match(r"(GET|POST|PUT|PATCH|DELETE) (\S+)\n", section)
        for block in re.findall(r"```json\n(.*?)```", section, re.DOTALL):
            yield route[1], route[2], json.loads(block)


def test_every_example_of_the_protocol(tmp_path):
    """In the order of the document, on one server that was empty at first."""
    server = Server("--data", tmp_path / "data", "--jobs", 0).start()
    say, known = Story(server), {"world": "build"}
    count = 0
    for method, path, body in examples():
        if isinstance(body, dict) and "session" in body:
            body["session"] = known["session"]
        answer = say(200, method, path, body, **{name: known.get(name, "1")
                                                 for name in re.findall(r"{(\w+)}", path)})
        if isinstance(answer, dict):
            known |= {{"batch": "bid", "job": "jid"}.get(name, name): value for name, value in answer.items()
                      if isinstance(value, str)}
        count += 1
    assert count >= 7 and server.stop() == 0


def test_what_is_no_route(server):
    status, _, body = ask(server, "GET", "/nowhere")
    assert status == 404 and json.loads(body)["code"] == "NO_ROUTE"
    status, headers, body = ask(server, "DELETE", "/groups")
    assert status == 405 and "GET" in headers["allow"] and json.loads(body)["code"] == "NO_METHOD"
