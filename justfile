# The project's verbs. `just check` is what CI does.

python := env("PYTHON", "python3")

# a virtual environment with the package (editable) and the tools
setup:
    {{python}} -m venv .venv
    .venv/bin/pip install -q -e ".[dev]"

# the same with exactly the locked versions
setup-locked:
    {{python}} -m venv .venv
    .venv/bin/pip install -q --require-hashes -r requirements.lock
    .venv/bin/pip install -q --no-deps -e .

# build the guest and the compiler's bundle again
native:
    .venv/bin/python hatch_build.py

fmt:
    .venv/bin/ruff format .
    .venv/bin/ruff check --fix .

lint:
    .venv/bin/ruff check .
    .venv/bin/ruff format --check .
    .venv/bin/lint-imports
    .venv/bin/deptry src

types:
    .venv/bin/pyright --pythonpath .venv/bin/python

test *args:
    .venv/bin/python -m pytest {{args}}

bench *args:
    .venv/bin/gloveport bench sessions {{args}}

demo:
    .venv/bin/gloveport demo

# lock the versions that the tests pass with, with their hashes
lock:
    .venv/bin/pip install -q uv
    .venv/bin/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url -q -o requirements.lock

check:
    .ci/run
