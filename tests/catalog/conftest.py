"""A catalog of an office, with the names and texts that real servers have."""

from __future__ import annotations

import pytest

from gloveport import AgentSandbox, SchemaTool

KEY = b"0123456789abcdef"

OFFICE = {
    "translate_text": ("Translate a text into another language.", ["text", "to"]),
    "list-invoices": ("All invoices of a customer, newest first.", ["customer_id", "limit"]),
    "createInvoice": ("Bill a customer.", ["customerId", "amount"]),
    "get_weather": ("Current temperature and wind of a city.", ["city"]),
    "send_email": ("Send a message to somebody's inbox.", ["to", "subject", "body"]),
    "searchIssues": ("Issues of a repository that match a query.", ["repo", "query"]),
    "merge_pull_request": ("Merge a pull request.", ["repo", "number"]),
    "delete_user": ("Remove an account for good.", ["user_id"]),
}


def office_tool(name, description, parameters, answer=None):
    schema = {"type": "object", "properties": {p: {"type": "string"} for p in parameters}, "required": parameters[:1]}
    return SchemaTool(name, description, schema, answer or (lambda args: [name, args]))


@pytest.fixture
def office():
    return [office_tool(name, *about) for name, about in OFFICE.items()]


@pytest.fixture
def session(office, either):
    with AgentSandbox({"now": lambda: "noon"}, tools_catalog=office, **either) as made:
        yield made
