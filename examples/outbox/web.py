"""A sign-up page on the standard library: `python web.py init`, `python web.py serve PORT`."""

import os
import sys
from pathlib import Path
from urllib.parse import parse_qs
from wsgiref.simple_server import make_server

import psycopg
from tasks import SendMail

import runner


def sign_up(conn, email):
    """The mail, its task and the account, in any order: it is one transaction."""
    (message,) = conn.execute(
        "insert into outbox (recipient, subject, body) values (%s, %s, %s) returning message_id",
        [email, "Welcome", "Good that you are here."],
    ).fetchone()
    runner.enqueue(conn, SendMail(message))
    conn.execute("insert into account (email) values (%s)", [email])


def application(environ, start_response):
    if (environ["REQUEST_METHOD"], environ["PATH_INFO"]) != ("POST", "/signup"):
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        return [b"POST /signup\n"]
    form = parse_qs(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)).decode())
    status, answer = "201 Created", b"welcome\n"
    try:
        with psycopg.connect(os.environ["DATABASE_URL"]) as conn:
            sign_up(conn, form["email"][0])
    except psycopg.errors.UniqueViolation:
        status, answer = "409 Conflict", b"there is an account already\n"
    except KeyError:
        status, answer = "400 Bad Request", b"which email?\n"
    start_response(status, [("Content-Type", "text/plain")])
    return [answer]


if __name__ == "__main__":
    if sys.argv[1] == "init":
        with psycopg.connect(os.environ["DATABASE_URL"]) as conn:
            conn.execute(Path(__file__).with_name("tables.sql").read_text())
    else:
        with make_server("127.0.0.1", int(sys.argv[2]), application) as server:
            print(f"http://127.0.0.1:{server.server_port}/signup", flush=True)
            server.serve_forever()
