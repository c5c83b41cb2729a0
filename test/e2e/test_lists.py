"""Lists that are cut say so, and how to go on; the commands read them to the end."""

import json
import urllib.request

import pytest

from batch_api import Api
from conftest import drover

PAGE = 1000  # that the commands ask for


@pytest.fixture
def api(server, monkeypatch):
    monkeypatch.setenv("DROVER_URL", f"http://127.0.0.1:{server.port}")
    return Api(server.port)


def read_pages(api, path, key, by, limit):
    """All pages: each but the last has as many as were asked for."""
    pages, more = [], ""
    while True:
        answer = api("GET", f"{path}{'&' if '?' in path else '?'}limit={limit}{more}")
        pages.append(answer[key])
        if answer.get("next") is None:
            assert key == "tasks" or "next" not in answer
            return pages
        assert len(answer[key]) == limit
        more = f"&{by}={answer['next']}"


def ids(pages):
    return [one["id"] for page in pages for one in page]


@pytest.mark.parametrize("count, limit, pages", [(4, 2, 2), (5, 2, 3), (3, 3, 1), (3, 4, 1)])
def test_batches_and_jobs(api, count, limit, pages):
    batches = [api.batch() for _ in range(count)]
    jobs = api.jobs(batches[0], count)
    other = api.job(batches[1])
    for path in ("/v1/batches", "/v1/batches?state=Pending"):
        found = read_pages(api, path, "batches", "after", limit)
        assert ids(found) == batches and len(found) == pages
    for path in (f"/v1/jobs?batch={batches[0]}", f"/v1/jobs?batch={batches[0]}&state=Pending"):
        found = read_pages(api, path, "jobs", "start", limit)
        assert ids(found) == jobs and len(found) == pages
    assert ids(read_pages(api, "/v1/jobs", "jobs", "start", limit)) == jobs + [other]
    api("PUT", f"/v1/batches/{batches[0]}/state", {"state": "Processing"})
    for job in jobs:
        api.drive(job)
    api("PUT", f"/v1/batches/{batches[0]}/state", {"state": "next"})
    assert ids(read_pages(api, "/v1/batches?state=Completed", "batches", "after", 1)) == batches[:1]
    assert api("GET", "/v1/access/small") == {"access": []}


def test_messages(api):
    """By number, and by size: an answer has a megabyte of them at most."""
    queue = api("POST", "/v1/queues", {})["queue"]
    path = f"/v1/queues/{queue}/messages"
    assert api("GET", path) == {"messages": []}
    sent = api("POST", path, {"messages": list("abcde")})["ids"]
    for limit, pages in ((2, 3), (5, 1), (1, 5)):
        found = read_pages(api, path, "messages", "after", limit)
        assert ids(found) == sent and len(found) == pages
    sent += [api("POST", path, {"data": letter * 600_000})["id"] for letter in "xyz"]
    first = api("GET", f"{path}?limit=0")
    assert ids([first["messages"]]) == sent[:6] and first["next"] == sent[5]
    done = drover("queue", "read", queue, "--limit", "0", "--json")
    assert [one["id"] for one in json.loads(done.stdout)["messages"]] == sent and done.stderr == ""
    assert "next" not in json.loads(done.stdout)
    done = drover("queue", "read", queue, "--limit", "7", "--json")
    assert json.loads(done.stdout)["next"] == sent[6]
    done = drover("queue", "read", queue, "--limit", "7")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 8
    assert done.stderr == f"drover: there are more: use --limit, or --after '{sent[6]}'\n"


def test_the_tasks_of_a_group(api):
    api("POST", "/update", {"clientid": 1, "adds": [{"group": "g", "data": "x"}] * 3})
    for query, count, more in (("", 3, None), ("?limit=0", 3, None), ("?limit=3", 3, None), ("?limit=4", 3, None),
                               ("?limit=2", 2, "true"), ("?limit=9223372036854775807", 3, None)):
        with urllib.request.urlopen(f"http://127.0.0.1:{api.port}/group/g{query}") as answer:
            assert len(json.load(answer)) == count, query
            assert answer.headers["Drover-More"] == more, query


@pytest.mark.slow
def test_the_commands_read_all_pages(api):
    batch, count = api.batch(), 2 * PAGE + 1
    jobs = [job for first in range(0, count, 500) for job in api.jobs(batch, min(500, count - first))]

    def listed(*words):
        done = drover("job", "ls", *words)
        assert done.returncode == 0, done
        return [line.split()[0] for line in done.stdout.splitlines()[1:]], done.stderr

    assert listed("--limit", "0") == (jobs, "")
    assert listed() == (jobs[:PAGE], f"drover: there are more: use --limit, or --start '{PAGE}'\n")
    assert listed("--start", str(PAGE))[0] == jobs[PAGE:2 * PAGE]
    assert listed("--start", str(PAGE), "--limit", "0") == (jobs[PAGE:], "")
    assert listed("--batch", batch, "--limit", str(count)) == (jobs, "")
    assert listed("--limit", str(PAGE + 1))[0] == jobs[:PAGE + 1]
    assert f"{count} jobs" in drover("batch", "show", batch).stdout.replace(",", "")
    whole = json.loads(drover("job", "ls", "--json", "--limit", "0").stdout)
    assert set(whole) == {"jobs"} and ids([whole["jobs"]]) == jobs
    done = drover("batch", "ls", "--limit", "1")
    assert batch in done.stdout and done.stderr == ""
    other = api.batch()
    assert drover("batch", "ls", "--limit", "1").stderr == f"drover: there are more: use --limit, or --after '{batch}'\n"
    assert other in drover("batch", "ls", "--after", batch).stdout


def test_worlds(api):
    api("POST", "/v1/worlds", {"world": "v"})
    for name in "abc":
        api("POST", "/v1/worlds/v/tasks", {"task": {"name": name, "type": "t"}})
    nodes = [one["node"] for one in api("GET", "/v1/worlds/v/tasks")["tasks"]]
    done = drover("world", "ls", "v", "--limit", "2")
    assert done.stderr == f"drover: there are more: use --limit, or --after '{nodes[1]}'\n"
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == nodes[:2]
    assert drover("world", "ls", "v", "--after", nodes[1]).stdout.splitlines()[1].split()[0] == nodes[2]
    assert json.loads(drover("world", "ls", "v", "--json").stdout)["next"] is None
