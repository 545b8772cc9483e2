"""Secrets in OPTIONS: values that come from the environment, and those of options whose name speaks of a secret.

Neither is shown by errors and logs. EXPLAIN shows no options at all.
"""

from __future__ import annotations

import re

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
SECRET = {"password", "passwd", "passphrase", "secret", "token", "key", "sasl", "credential", "credentials"}
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_OPTION = re.compile(r"""(?P<name>[\w.`'"-]+)(?P<between>\s*=?\s*)(?P<value>'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?)""")


def is_secret(name: str) -> bool:
    """Whether the name of an option speaks of a secret.

    >>> is_secret("kafka.sasl.jaas.config"), is_secret("accessKey"), is_secret("keys")
    (True, True, False)
    """
    return any(part.lower() in SECRET for part in _PARTS.findall(name))


def masked(line: str) -> str:
    """A line of a query file with stars for the values of secret options. It is as long as before.

    >>> masked("OPTIONS (password 'abc', path 'in')")
    "OPTIONS (password '***', path 'in')"
    """

    def stars(found: re.Match[str]) -> str:
        value = found["value"]
        if not is_secret(found["name"]) or VARIABLE.fullmatch(value[1:-1]):
            return found[0]
        closed = len(value) > 1 and value[-1] == value[0]
        return found["name"] + found["between"] + value[0] + "*" * (len(value) - 1 - closed) + value[0] * closed

    return _OPTION.sub(stars, line)
