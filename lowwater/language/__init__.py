"""The query language of the papers: text to relations, by the same verbs as the Python API.

script        a file of statements, read and written
dialect       the grammar: Spark's by sqlglot, with the papers' clauses (clauses, statements, trees, writing)
declaration   CREATE STREAM as a declaration that a backend opens
binding       statements to relations with their sinks
queries       clauses to verbs
sharing       which queries of a file run together
"""

from lowwater.language.binding import BoundQuery, bind, sql
from lowwater.language.declaration import Declaration, Opener, Options, Sink, places_of
from lowwater.language.errors import BadQuery
from lowwater.language.script import (
    CreateStream,
    CreateView,
    Explain,
    Insert,
    InsertLate,
    Query,
    Script,
    Statement,
    read,
    write,
)
from lowwater.language.sharing import Group, grouped

__all__ = [
    "BadQuery",
    "BoundQuery",
    "CreateStream",
    "CreateView",
    "Declaration",
    "Explain",
    "Group",
    "Insert",
    "InsertLate",
    "Opener",
    "Options",
    "Query",
    "Script",
    "Sink",
    "Statement",
    "bind",
    "grouped",
    "places_of",
    "read",
    "sql",
    "write",
]
