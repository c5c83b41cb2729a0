"""tools/tidy finds each kind of mistake, and nothing in a correct tree."""

import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

DESIGN = """# Design

```layers
low  :
high : low
```
"""

LOW_H = """/*
 * low - the lower layer.
 *
 *     struct low_thing t = {...};
 *     if (low_use(&t, 1, ...))
 *         ... give up ...
 *     low_use(&t, count, name);     // again
 */
struct low_thing {
    int n;
};
int low_use(struct low_thing *t, int count, const char *name);
"""

HIGH_C = """#include "low/low.h"

enum high_state { HIGH_ON };

static int high_start(void)
{
    if (uv_timer_init(loop, &timer))
        return -1;
    return
        uv_timer_start(&timer, on_timer, 1, 0);
}
"""


@pytest.fixture
def tree(tmp_path):
    """A small tree that is in order."""
    for name, text in (("doc/design.md", DESIGN), ("src/low/low.h", LOW_H),
                       ("src/high/high.c", HIGH_C), ("README.md", "Data is in /tmp/drover.\n")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "include").mkdir()
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/tidy", tmp_path / "tools")
    return tmp_path


def tidy(tree, name):
    """Exit status and findings of one check."""
    done = subprocess.run([tree / "tools/tidy", "--only", name], capture_output=True, text=True)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def long_function(lines):
    return "\nint long_one(int a,\n             int b)\n{\n" + "    a++;\n" * (lines - 4) + "}\n"


# The check, a file, the text appended to it, and the expected finding.
FINDINGS = [
    ("layers", "src/low/low.c", '#include "high/high.h"\n', "low.c:1: high/high.h is no path"),
    ("layers", "src/low/low.h", '#include "high/high.c"\n', "low may not include high"),
    ("layers", "src/other/a.c", "int a;\n", "src/other/a.c:1: other is not among the layers"),
    ("layers", "doc/design.md", "```layers\nnone : \n```\n", "there is no directory src/none"),
    ("layers", "doc/design.md", "```layers\nmid : top\n```\n", "mid may include top, which"),
    ("columns", "test/a.c", "// " + "ü" * 98 + "\n", "test/a.c:1: 101 columns"),
    ("functions", "src/high/high.c", long_function(71), "high.c:13: a function of 71 lines"),
    ("files", "bench/a.c", "\n" * 501, "bench/a.c:1: 501 lines"),
    ("structs", "src/high/high.c", "struct low_thing {\n};\n", "struct low_thing is also at"),
    ("structs", "src/high/high.c", "union high_state {\n};\n", "union high_state is also at"),
    ("examples", "src/low/b.h", "/*\n *     no_such(1);\n */\n", "b.h:2: example: implicit"),
    ("examples", "src/low/b.h", '/*\n *     low_use(1);\n */\n#include "low/low.h"\n',
     "b.h:2: example: too few arguments"),
    ("threads", "src/high/high.c", "int x = pthread_create(0);\n", "pthread_create outside"),
    ("prints", "src/cli/new.c", "    printf(\"%.*s\\n\",\n        STR_ARGS(name));\n", "new.c:1: printf of a text"),
    ("prints", "src/cli/new.c", "    fwrite(p, 1, len, to);\n", "fwrite of a text"),
    ("uv", "src/high/high.c", "    uv_async_init(loop, &a, f);\n", "of uv_async_init is dropped"),
    ("uv", "src/high/high.c", "    (void)uv_idle_start(&a, f);\n", "of uv_idle_start is dropped"),
    ("paths", "README.md", "See /home/" + "ann/notes.\n", "README.md:2: a path of a machine"),
    ("links", "README.md", "See [it](src/none.c).\n", "README.md:2: no such file: src/none.c"),
    ("links", "doc/design.md", "In `src/low/none.h`.\n", "design.md:7: no such file: src/low/none.h"),
]


@pytest.mark.parametrize("name", sorted({finding[0] for finding in FINDINGS}))
def test_a_tree_in_order(tree, name):
    (tree / "src/high/high.c").write_text(HIGH_C + long_function(70) + "// " + "x" * 97 + "\n")
    assert tidy(tree, name) == (0, [])


@pytest.mark.parametrize("name, file, text, says", FINDINGS)
def test_a_finding(tree, name, file, text, says):
    path = tree / file
    path.parent.mkdir(exist_ok=True)
    with open(path, "a") as out:
        out.write(text)
    status, found = tidy(tree, name)
    assert status == 1
    assert any(says in line for line in found), found


def test_comments_and_strings_are_not_code(tree):
    (tree / "src/high/high.c").write_text(
        '/* struct low_thing { pthread_create( */\n// union low_thing {\n'
        'char a[] = "struct low_thing {", b = \'"\'; /* " */\nchar c[] = "pthread_create(";\n')
    assert tidy(tree, "structs") == tidy(tree, "threads") == (0, [])
