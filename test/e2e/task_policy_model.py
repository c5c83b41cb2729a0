"""A model of the task store with everything: settings, keys, failures, results, bulk. And a client that sends random
transactions and compares each answer, and then the whole store, with the model.

One transaction follows the other, so the model says exactly what each has to do. Times are now or an hour away, and a
claim for 0 ms is a worker that died, so nothing hangs on the clock. What the server chooses, the ids and which of
several equal tasks a claim gets, is taken over and checked against what it may choose.
"""

import base64
import copy
import dataclasses
import random

HOUR_MS = 3600 * 1000
GROUPS = ["a", "b", "mail/in", "mail/out"]
PATTERNS = ["a", "b", "mail/*", "mail/in", "*"]
CLIENTS = [1, 2, 3]
DEFAULTS = {"order": "random", "attempts": 5, "claims": 0, "limit": 0, "limit_per_share": 0, "fair": False,
            "paused": False, "keep_done": 0, "remember_keys": 0, "max_tasks": 0, "dead": ""}
CHOICES = {"order": ["random", "fifo"], "attempts": [0, 1, 2, 5], "claims": [0, 1, 2], "limit": [0, 1, 3],
           "limit_per_share": [0, 1, 2], "fair": [False, True], "paused": [False, False, True],
           "keep_done": [0, HOUR_MS], "remember_keys": [0, HOUR_MS], "max_tasks": [0, 4, 8],
           "dead": ["", "graves"]}


@dataclasses.dataclass
class Task:
    """By its first id. later: its time is an hour away."""

    first: int
    group: str
    data: str
    ownerid: int
    later: bool = False
    binary: bool = False
    priority: int = 0
    key: str = ""
    share: str = ""
    created: bool = False
    claimed: bool = False
    retrying: bool = False
    dead: bool = False
    done: bool = False
    attempts: int = 0
    claims: int = 0
    unanswered: int = 0
    error: str = ""
    origin: str = ""
    result: str = ""
    ended: bool = False
    id: int = 0  # as last seen, and so its time
    timespec: int = 0
    changed: bool = True  # since then

    def state(self):
        if self.done:
            return "done"
        if self.later:
            return "claimed" if self.claimed else "retrying" if self.retrying else "delayed"
        return "dead" if self.dead else "available"

    def is_plain(self):
        return not (self.binary or self.priority or self.key or self.share or self.created or self.attempts
                    or self.claims or self.unanswered or self.error or self.origin or self.result or self.ended)

    def shown(self):
        """As the server shows it, without its times."""
        data = {"data64": base64.b64encode(self.data.encode()).decode()} if self.binary else {"data": self.data}
        members = {"priority": self.priority, "key": self.key, "share": self.share, "attempts": self.attempts,
                   "claims": self.claims, "error": self.error, "origin": self.origin, "result": self.result}
        return {"first": self.first, "group": self.group, "ownerid": self.ownerid, "state": self.state(), **data,
                **{name: value for name, value in members.items() if value}}


class Refused(Exception):
    """With the status."""


class Model:
    def __init__(self):
        self.tasks, self.settings, self.ids = {}, {}, {}  # ids: of what was ever there, to its first id

    def of(self, group):
        """The settings of a group: by its name, or the longest prefix."""
        prefixes = [p for p in self.settings if p.endswith("*") and group.startswith(p[:-1])]
        name = group if group in self.settings else max(prefixes, key=len, default=None)
        return self.settings.get(name, DEFAULTS)

    def living(self, group):
        return [t for t in self.tasks.values() if t.group == group and not t.done]

    def find(self, ref):
        """A living task by its id, or by "first:ID"; None: there is none."""
        if isinstance(ref, str):
            task = self.tasks.get(int(ref.removeprefix("first:")))
        else:
            task = self.tasks.get(self.ids.get(ref))
            task = task if task and task.id == ref else None
        return task if task and not task.done else None

    def holder(self, group, key):
        """Who has the key: dead tasks do not, and those that are done only where keys are remembered."""
        for t in self.tasks.values():
            if t.group == group and t.key == key and not t.dead and (not t.done or t.remembered):
                return t
        return None

    # Transactions. They change a copy, which the caller takes over when all of it was possible.

    def check(self, u):
        """Raises Refused. The tasks that end, those that change, and what each add does."""
        ends = [self.find(i) for i in u.get("deletes", [])] + [self.find(f["id"]) for f in u.get("finishes", [])]
        changes = [self.find(x["id"]) for x in u.get("updates", []) + u.get("fails", [])]
        changes += [self.find(i) for i in u.get("releases", [])]
        named, wrong, full = [], False, False
        room = {g: self.of(g)["max_tasks"] - len(self.living(g)) for g in {a["group"] for a in u.get("adds", [])}}
        for t in ends:
            if t and t.group in room:
                room[t.group] += 1
        keys, adds = set(), []
        for a in u.get("adds", []):
            how, held = "add", None
            if "key" in a:
                wrong |= (a["group"], a["key"]) in keys
                keys.add((a["group"], a["key"]))
                held = self.holder(a["group"], a["key"])
                if held and any(t is held for t in ends) and not self.of(a["group"])["remember_keys"]:
                    held = None
            if held:
                how = a.get("on_key", "refuse")
                wrong |= how == "refuse" or how == "replace" and (held.done or held.claimed and held.later)
                if how == "replace":
                    named.append(held)
            else:
                room[a["group"]] -= 1
                full |= room[a["group"]] < 0 < self.of(a["group"])["max_tasks"]
            adds.append((a, how, held))
        for t in changes + ends:
            wrong |= t is None or any(t is n for n in named) or t.later and t.ownerid != u["clientid"]
            named.append(t)
        wrong |= any(self.find(i) is None for i in u.get("depends", []))
        if wrong or full:
            raise Refused(409 if wrong else 429)
        return ends, adds

    def apply(self, u):
        """The firsts of the tasks of the answer; None stands for a new one, which the caller names."""
        ends, adds = self.check(u)
        results = [""] * len(u.get("deletes", [])) + [f.get("result", "") for f in u.get("finishes", [])]
        finished = [False] * len(u.get("deletes", [])) + [True] * len(u.get("finishes", []))
        after = [self.find(x["id"]) for x in u.get("updates", []) + u.get("fails", [])]
        after += [self.find(i) for i in u.get("releases", [])]
        for t, result, is_finish in zip(ends, results, finished):
            self.end(t, result, is_finish)
        answer = [self.add(a, how, u["clientid"]) for a, how, _ in adds]
        for x, t in zip(u.get("updates", []), after):
            self.update(t, x, u["clientid"])
        for x, t in zip(u.get("fails", []), after[len(u.get("updates", [])):]):
            self.fail(t, x, u["clientid"])
        for t in after[len(after) - len(u.get("releases", [])):]:
            t.claimed = t.later = False
            t.unanswered, t.ownerid, t.changed = 0, u["clientid"], True
        return answer + [t.first for t in after]

    def end(self, t, result, finished):
        settings = self.of(t.group)
        remembers = bool(t.key and not t.dead and settings["remember_keys"])
        keeps = bool(finished and settings["keep_done"])
        if not remembers and not keeps:
            del self.tasks[t.first]
            return
        t.done, t.remembered, t.ended, t.result, t.unanswered = True, remembers, True, result, 0
        t.data = t.data if keeps else ""
        t.claimed = t.retrying = t.dead = False

    def add(self, a, how, clientid):
        held = self.holder(a["group"], a["key"]) if "key" in a else None
        if held and how == "keep":
            return held.first
        t = Task(held.first if held else None, a["group"], a.get("data", ""), clientid, "timespec" in a,
                 "data64" in a, a.get("priority", 0), a.get("key", ""), a.get("share", ""))
        if t.binary:
            t.data = base64.b64decode(a["data64"]).decode()
        t.created = not t.is_plain() or bool(held)
        if held:
            t.id = held.id
            self.tasks[held.first] = t
            return held.first
        self.tasks[id(t)] = t  # until the answer names it
        t.first = id(t)
        return t.first

    def update(self, t, x, clientid):
        t.data, t.later, t.ownerid, t.changed = x.get("data", ""), "timespec" in x, clientid, True
        t.claimed &= t.later
        t.unanswered, t.binary = 0, False

    def fail(self, t, x, clientid):
        settings = self.of(t.group)
        t.attempts += 1
        t.unanswered, t.error, t.ownerid, t.claimed, t.changed = 0, x["error"], clientid, False, True
        if t.dead or x.get("dead") or settings["attempts"] and t.attempts >= settings["attempts"]:
            self.bury(t)
        else:
            t.retrying, t.later = True, x.get("retry_in", 1) > 0

    def bury(self, t):
        if not t.dead:
            t.origin, t.group = t.group, self.of(t.group)["dead"] or f"{t.group}/dead"
        t.dead, t.ended, t.changed = True, True, True
        t.claimed = t.retrying = t.later = False
        t.unanswered = 0

    # Claims: the server chooses, the model says whether it may.

    def given_up(self, t):
        limit = self.of(t.group)["claims"]
        return limit and t.unanswered >= limit and not t.dead

    def claimable(self, groups):
        """The tasks of which the next one may be. Where claims go round the shares, the priority counts within one,
        and whose turn it is decides between groups: any share may be next."""
        found = []
        for group in dict.fromkeys(groups):
            s, tasks = self.of(group), self.living(group)
            held = [t for t in tasks if t.later and t.claimed]
            if s["paused"] or s["limit"] and len(held) >= s["limit"]:
                continue
            free = [t for t in tasks if not t.later and not
                    0 < s["limit_per_share"] <= len([h for h in held if h.share == t.share])]
            found += [t for t in free if t.priority == min(o.priority for o in free
                                                           if not s["fair"] or o.share == t.share)]
        if any(self.of(group)["fair"] for group in groups):
            return found
        return [t for t in found if t.priority == min(o.priority for o in found)]

    def may_be_next(self, t, groups):
        candidates = self.claimable(groups)
        if t not in candidates:
            return False
        if self.of(t.group)["order"] == "random":
            return True
        same = [c for c in candidates if c.group == t.group and (c.share == t.share or not self.by_share(t.group))]
        if t.changed:  # just now, so its time is the newest
            return all(c.changed for c in same)
        return (t.timespec, t.id) == min((c.timespec, c.id) for c in same if not c.changed)

    def by_share(self, group):
        return self.of(group)["fair"] or self.of(group)["limit_per_share"]

    def hand_out(self, t, clientid, duration):
        if not t.is_plain() or self.of(t.group)["claims"]:
            t.claims += 1
            t.unanswered += 1
        t.claimed, t.later, t.ownerid, t.changed = True, duration > 0, clientid, True

    # Bulk.

    def matches(self, t, f):
        return (f.get("group", t.group) == t.group and t.state() in f.get("state", [t.state()])
                and f.get("text", "") in t.data and f.get("error", "") in t.error
                and ("key" not in f or f["key"] == t.key))

    def may_act(self, t, f, action, group=None, priority=None):
        """A claimed task must be asked for, and what makes no difference is not done."""
        state = t.state()
        differs = {"move": t.group != group, "priority": t.priority != priority,
                   "release": state not in ("available", "dead"),
                   "retry": state != "available" or t.attempts > 0}.get(action, True)
        return (self.matches(t, f) and differs and state != "done"
                and (state != "claimed" or "claimed" in f.get("state", [])))

    def act(self, t, clientid, action, group=None, priority=None):
        """False: not possible, because its key is taken."""
        if action == "delete":
            self.end(t, "", False)
            return True
        if action == "priority":
            t.priority, t.changed = priority, True
            return True
        target = group if action == "move" else t.origin if action == "retry" and t.dead else t.group
        if action in ("move", "retry"):
            holder = self.holder(target, t.key) if t.key else None
            if holder and holder is not t:
                return False
            t.dead = t.retrying = t.ended = False
            t.origin = ""
        t.group, t.unanswered, t.claimed, t.ownerid, t.changed = target, 0, False, clientid, True
        t.later &= action == "move"
        t.attempts = 0 if action == "retry" else t.attempts
        return True


Task.remembered = False  # of one that is done: it still has its key


class Player:
    """Sends random transactions. send(method, path, body) gives the status and the answer, for certain: it repeats
    what may be lost. All mistakes are found by assertions, which name the seed and the step."""

    def __init__(self, send, seed):
        self.send, self.seed = send, seed
        self.random = random.Random(seed)
        self.model = Model()
        self.steps = self.number = 0

    def play(self, count=1):
        for _ in range(count):
            self.steps += 1
            step = self.random.choices([self.transact, self.claim, self.bulk, self.configure, self.wait],
                                       [10, 10, 2, 2, 1])[0]
            try:
                step()
                self.compare()
            except AssertionError as error:
                raise AssertionError(f"seed {self.seed}, step {self.steps}, {step.__name__}: {error}") from error

    def chance(self, share):
        return self.random.random() < share

    def some(self, most):
        return range(self.random.randint(0, most))

    def pick(self, kinds=("id", "id", "first", "old")):
        """The name of a task, mostly of one that is there."""
        kind = self.random.choice(kinds)
        living = [t for t in self.model.tasks.values() if not t.done]
        if kind == "old" and self.model.ids and self.chance(0.2):
            return self.random.choice(list(self.model.ids))
        if not living:
            return 10 ** 9
        task = self.random.choice(living)
        return f"first:{task.first}" if kind == "first" else task.id

    def new_add(self):
        self.number += 1
        add = {"group": self.random.choice(GROUPS)}
        if self.chance(0.1):
            add["data64"] = base64.b64encode(f"d{self.number}".encode()).decode()
        else:
            add["data"] = f"d{self.number}"
        if self.chance(0.3):
            add["priority"] = self.random.randint(-2, 2)
        if self.chance(0.4):
            add["key"] = self.random.choice("klmn")
            if self.chance(0.7):
                add["on_key"] = self.random.choice(["refuse", "keep", "replace"])
        if self.chance(0.4):
            add["share"] = self.random.choice("stu")
        if self.chance(0.2):
            add["timespec"] = -HOUR_MS
        return add

    def new_edits(self, most):
        edits = {"deletes": [self.pick() for _ in self.some(most)],
                 "depends": [self.pick() for _ in self.some(1)],
                 "fails": [{"id": self.pick(), "error": f"e{self.random.randint(1, 3)}"} for _ in self.some(most)],
                 "finishes": [{"id": self.pick(), "result": "r"} for _ in self.some(most)],
                 "releases": [self.pick() for _ in self.some(most)]}
        for fail in edits["fails"]:
            if self.chance(0.3):
                fail["dead"] = True
            elif self.chance(0.5) or not self.is_configured(fail["id"]):
                fail["retry_in"] = self.random.choice([0, HOUR_MS])
        return {name: value for name, value in edits.items() if value and self.chance(0.5)}

    def is_configured(self, name):
        """Whether the backoff of its group is an hour: unless it has settings, it is a second."""
        task = self.model.find(name)
        return task is None or self.model.of(task.group) is not DEFAULTS

    def client_of(self, edits):
        """Mostly the one that may do it."""
        names = edits.get("deletes", []) + [x["id"] for n in ("fails", "finishes", "updates") for x in edits.get(n, [])]
        task = self.model.find(names[0]) if names and self.chance(0.8) else None
        return task.ownerid if task and task.ownerid in CLIENTS else self.random.choice(CLIENTS)

    def request(self, **members):
        self.number += 1
        return {**members, "requestid": f"{self.seed}-{self.number}"}

    def predict(self, u):
        """The model after it, and the firsts of the answer; or the status of the refusal."""
        after = copy.deepcopy(self.model)
        try:
            return after, after.apply(u), 200
        except Refused as refused:
            return self.model, [], refused.args[0]

    def transact(self):
        u = self.new_edits(1)
        u["adds"] = [self.new_add() for _ in self.some(3)]
        u["updates"] = [{"id": self.pick(), "data": f"u{self.number}"} for _ in self.some(1)]
        for update in u["updates"]:
            if self.chance(0.5):
                update["timespec"] = -HOUR_MS
        u = self.request(**u, clientid=self.client_of(u))
        after, firsts, wanted = self.predict(u)
        status, body = self.send("POST", "/update", u)
        assert status == wanted, f"{u}: {status} {body}, and not {wanted}"
        if status != 200:
            assert body["errors"] and body["code"] == ("REFUSED" if status == 409 else "GROUP_FULL"), body
            return
        assert len(body["tasks"]) == len(firsts), (u, body, firsts)
        for first, shown in zip(firsts, body["tasks"]):
            if first in after.tasks and after.tasks[first].first not in self.model.tasks:  # a new one
                task = after.tasks.pop(first)
                task.first = shown["id"]
                after.tasks[task.first] = task
            else:
                assert shown.get("first", first) == first, (u, body)
        self.model = after

    def claim(self):
        edits = self.new_edits(1) if self.chance(0.3) else {}
        groups = self.random.sample(GROUPS + ["mail/in/dead", "graves"], self.random.randint(1, 2))
        duration = self.random.choice([HOUR_MS, HOUR_MS, 0])
        c = self.request(**edits, clientid=self.client_of(edits), groups=groups, duration=duration,
                         limit=self.random.randint(1, 3) if duration else 1)
        after, _, wanted = self.predict(c)
        status, body = self.send("POST", "/claim", c)
        assert status == wanted, f"{c}: {status} {body}, and not {wanted}"
        if status != 200:
            return
        buries = any(after.given_up(t) for g in groups for t in after.living(g))
        for shown in body["tasks"]:
            task = next((t for t in after.tasks.values() if not t.done and self.is_same(t, shown)), None)
            assert task, f"{c}: nobody knows {shown}"
            if task.group != shown["group"] and after.given_up(task) and task in after.claimable(groups):
                self.give_up(after, task)  # and it was given out as a dead one
            # One that is buried takes a slot until then, so that others may go before their turn.
            may_be_next = not task.later if buries else after.may_be_next(task, groups)
            assert may_be_next and not after.given_up(task), \
                f"{c}: not the turn of {shown}, but of {after.claimable(groups)} by {[after.of(g) for g in groups]}"
            after.hand_out(task, c["clientid"], c["duration"])
        self.take_given_up(after, groups, len(body["tasks"]) < c["limit"])
        if len(body["tasks"]) < c["limit"]:
            left = after.claimable(groups)
            assert not left or c["duration"] == 0, f"{c}: {left} could be claimed"
        self.model = after

    @staticmethod
    def is_same(task, shown):
        data = base64.b64decode(shown["data64"]).decode() if "data64" in shown else shown["data"]
        return task.first == shown.get("first", task.first) and task.data == data

    @staticmethod
    def give_up(model, task):
        task.error = f"claimed {task.unanswered} times without an answer"
        model.bury(task)

    def take_given_up(self, model, groups, all_of_them):
        """Tasks that the claim has buried: it may bury those that it could have given out, and only those."""
        there = {t["first"]: t for t in self.listing()}
        for group in groups:
            for task in [t for t in model.living(group) if model.given_up(t) and not t.later]:
                if there.get(task.first, {}).get("group", group) != group or \
                        there.get(task.first, {}).get("ended", 0) and not task.ended:
                    self.give_up(model, task)
                elif all_of_them:
                    assert task not in model.claimable(groups), f"{task} is not dead"

    def bulk(self):
        f = {"group": self.random.choice(GROUPS + ["graves", "a/dead"])} if self.chance(0.8) else {}
        if self.chance(0.4):
            f["state"] = self.random.sample(["available", "delayed", "retrying", "claimed", "dead"], 2)
        if self.chance(0.3) or "group" not in f:  # tasks of a schedule beside have no data
            f["text"] = self.random.choice("du123")
        if self.chance(0.2):
            f["key"] = self.random.choice("klmn")
        if self.chance(0.2):
            f["error"] = "e1"
        body = {"filter": f, "action": self.random.choice(["delete", "retry", "move", "release", "priority"]),
                "limit": self.random.choice([1, 5, 1000]), "clientid": self.random.choice(CLIENTS)}
        body |= {"move": {"group": self.random.choice(GROUPS)}, "priority": {"priority": 1}}.get(body["action"], {})
        after = copy.deepcopy(self.model)
        order = (lambda t: t.id) if "group" in f else (lambda t: 0)
        what = body["action"], body.get("group"), body.get("priority")
        tasks = sorted((t for t in after.tasks.values() if after.may_act(t, f, *what)), key=order)
        if "group" not in f and body["action"] in ("move", "retry") and len({t.key for t in tasks if t.key}) < \
                len([t for t in tasks if t.key]):
            return  # which of them has the key then depends on the order, which is not known
        done = [after.act(t, body["clientid"], *what) for t in tasks]
        matched = changed = 0
        while True:
            status, answer = self.send("POST", "/v1/tasks/bulk", body)
            assert status == 200, f"{body}: {status} {answer}"
            matched += answer["matched"]
            changed += answer["changed"]
            if not answer["next"]:
                break
            body["after"] = answer["next"]
        assert (matched, changed) == (len(tasks), sum(done)), f"{body}: {matched}, {changed} of {tasks}"
        self.model = after

    def configure(self):
        pattern = self.random.choice(PATTERNS)
        path = f"/v1/groups/{pattern.replace('/', '%2F')}"
        if pattern in self.model.settings and self.chance(0.4):
            assert self.send("DELETE", path)[0] == 200
            del self.model.settings[pattern]
            return
        names = self.random.sample(list(CHOICES), 3)
        change = {name: self.random.choice(CHOICES[name]) for name in names}
        change["backoff"] = {"first": HOUR_MS, "max": HOUR_MS, "jitter": 0}
        if pattern == "*":  # the dead tasks would go to where they are
            change.pop("dead", None)
        status, body = self.send("PUT", path, change)
        assert status == 200, (change, body)
        settings = dict(self.model.settings.get(pattern) or self.model.of(pattern))  # of the pattern that it refines
        settings |= {name: value for name, value in change.items() if name != "backoff"}
        self.model.settings[pattern] = settings
        assert {name: body["settings"][name] for name in settings} == settings

    def wait(self):
        if not self.model.ids:
            return
        first = self.random.choice(list(set(self.model.ids.values())))
        task = self.model.tasks.get(first)
        status, body = self.send("GET", f"/v1/tasks/first:{first}/wait?timeout=0")
        assert status == (200 if task else 404), (first, status, body)
        if task:
            shown = {name: value for name, value in task.shown().items()
                     if name in ("first", "group", "state", "result", "error")}
            assert body == {"id": task.id, **shown}, (body, task)

    # Comparing.

    def listing(self):
        tasks, after = [], ""
        while True:
            status, page = self.send("GET", f"/v1/tasks?limit=10000{after}")
            assert status == 200, page
            tasks += page["tasks"]
            if not page["next"]:
                return [t for t in tasks if t["group"] != "ticks"]
            after = f"&after={page['next']}"

    def compare(self):
        """All that there is, and what changed has a new id."""
        there = {t["first"]: t for t in self.listing()}
        model = self.model.tasks
        assert there.keys() == model.keys(), f"{there.keys() ^ model.keys()}: {there}, {model}"
        last = max(self.model.ids, default=0)
        for first, shown in there.items():
            task = model[first]
            wanted = task.shown()
            assert {name: shown.get(name) for name in wanted} == wanted, f"{shown}, and not {task}"
            more = shown.keys() - wanted.keys() - {"id", "timespec", "created", "ended", "expires"}
            assert not more and ("ended" in shown) == task.ended and ("created" in shown) == task.created, (shown, task)
            is_new = shown["id"] > last or task.id == 0 or task.done
            assert is_new if task.changed else shown["id"] == task.id, (shown, task)
            task.id, task.timespec, task.changed = shown["id"], shown["timespec"], False
            self.model.ids[shown["id"]] = first
        if self.steps % 10 == 0:
            self.compare_groups()

    def compare_groups(self):
        """Counts by state, and who has the slots."""
        status, body = self.send("GET", "/v1/groups")
        assert status == 200
        for shown in body["groups"]:
            tasks = [t.state() for t in self.model.tasks.values() if t.group == shown["group"]]
            states = {name: shown[name] for name in ("available", "delayed", "retrying", "claimed", "dead", "done")}
            assert shown["group"] == "ticks" or states == {name: tasks.count(name) for name in states}, (shown, tasks)
        for group in GROUPS:
            status, body = self.send("GET", f"/v1/groups/{group.replace('/', '%2F')}")
            held = {(t.id, t.first, t.ownerid) for t in self.model.living(group) if t.state() == "claimed"}
            assert {(c["id"], c["first"], c["ownerid"]) for c in body["claimed"]} == held, (body, held)
