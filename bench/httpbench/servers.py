"""servers: oxicloudd and its peers, each with a folder, a configuration and a port of its own.

Peers are set up for their best: no access log, no login, two workers, connections kept for as
long as they like. What a peer does not say here is as Debian ships it. oxicloudd has its default
settings, the private PostgreSQL and Basic authentication of every request.
"""

import base64
import contextlib
import http.client
import json
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import time

from httpbench import machine

START_SECS, STOP_SECS = 60, 60
WORKERS = 2


class Unavailable(Exception):
    """Not on this machine, or it does not start."""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def first_line(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout.partition("\n")[0].strip()


class Server:
    """One server. It can be started and stopped again and again; its files stay."""

    name = program = None
    root = "/"
    user = None
    death_signal = "TERM"  # should the bench itself be killed

    def __init__(self, folder):
        self.folder = pathlib.Path(folder) / self.name
        self.files = self.folder / "files"
        self.log = self.folder / "log"
        self.process = self.port = None
        self.has = set()  # what rows have stored in it, to be used again by others

    def make(self):
        """Folder and files, before the first start."""
        if not shutil.which(self.program, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
            raise Unavailable(f"{self.program} is not installed")
        self.files.mkdir(parents=True, exist_ok=True)

    def command(self):
        raise NotImplementedError

    def environment(self):
        return dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin")

    def configure(self, text):
        path = self.folder / "conf"
        path.write_text(text)
        return path

    # --- processes ---

    def start(self):
        self.make()
        self.port = free_port()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", self.death_signal, *map(str, self.command())],
                cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True)  # Apache ends its whole group
        deadline = time.monotonic() + START_SECS
        while not self.is_ready():
            if self.process.poll() is not None:
                raise Unavailable(f"{self.name} ended when it was started: {self.last_words()}")
            if time.monotonic() > deadline:
                self.stop()
                raise Unavailable(f"{self.name} does not answer: {self.last_words()}")
            time.sleep(0.05)

    def is_ready(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.request("OPTIONS", self.root)[0] < 500
        return False

    def stop(self):
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECS)
        except subprocess.TimeoutExpired:
            for pid in machine.tree([self.process.pid]):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()
        self.process = None

    def last_words(self):
        with contextlib.suppress(OSError):
            return " / ".join(self.log.read_text(errors="replace").splitlines()[-3:])
        return "(no log)"

    def own_pids(self):
        return [self.process.pid]

    def database_pids(self):
        return []

    def cpu_seconds(self):
        return machine.cpu_seconds(self.own_pids() + self.database_pids())

    # --- requests of the bench itself, none of which is timed ---

    def url(self, path=""):
        return f"http://127.0.0.1:{self.port}{self.root}{path}"

    def request(self, method, path, headers=None, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = dict(headers or {})
        if self.user:
            token = base64.b64encode(self.user.encode()).decode()
            headers["Authorization"] = f"Basic {token}"
        try:
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def make_folder(self, name):
        status, _ = self.request("MKCOL", f"{self.root}{name}/")
        if status != 201:
            raise Unavailable(f"{self.name}: MKCOL was answered with {status}")

    # --- what lies on the disk ---

    def stored(self, path):
        """The files that hold what was sent there."""
        return [self.files / path]

    def give_back(self, path):
        """The room of a file that is not needed any more. It is cut to nothing and removed only
        with everything else: a file system may be slow at making files after many were deleted."""
        for stored in self.stored(path):
            with contextlib.suppress(FileNotFoundError):
                os.truncate(stored, 0)

    def version(self):
        raise NotImplementedError


class Oxicloudd(Server):
    name = program = "oxicloudd"
    root = "/webdav/"
    user = "bench:correct horse 1"
    death_signal = "KILL"  # the private PostgreSQL ends by itself then
    binary = None  # set by bench/http
    settings = {}

    def make(self):
        if not os.access(self.binary, os.X_OK):
            raise Unavailable(f"{self.binary} is missing; run make")
        if self.folder.exists():
            return
        self.folder.mkdir(parents=True)
        (self.folder / "conf").touch()
        self.run("user", "add", self.user.partition(":")[0],
                 input=self.user.partition(":")[2] + "\n")

    def environment(self):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("OXICLOUD_", "PG"))}
        kept.update(OXICLOUD_STORAGE_PATH=str(self.files), OXICLOUD_SERVER_PORT=str(self.port or 0))
        kept.update({f"OXICLOUD_{key}": value for key, value in self.settings.items()})
        return kept

    def command(self):
        return self.binary, "-c", self.folder / "conf", "serve"

    def run(self, *arguments, input=""):
        done = subprocess.run([self.binary, "-c", self.folder / "conf", *arguments],
                              cwd=self.folder, env=self.environment(), input=input,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=START_SECS)
        if done.returncode != 0:
            raise Unavailable(f"oxicloudd {arguments[0]}: {done.stderr.strip()}")
        return done.stdout

    def is_ready(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.request("GET", "/ready")[0] == 200
        return False

    def database_pids(self):
        """Not a child: it survives a kill of the server for a moment."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = (self.files / "postgres" / "postmaster.pid").read_text()
            return [int(text.split("\n")[0])]
        return []

    def own_pids(self):
        database = set(machine.tree(self.database_pids()))
        return [pid for pid in machine.tree([self.process.pid]) if pid not in database]

    def stats(self):
        return json.loads(self.run("stats", "--json"))

    def stored(self, path):
        """Chunks belong to no file: all there are."""
        return sorted((self.files / ".blobs").glob("*/*.blob"))

    def give_back(self, path):
        """Deduplicated chunks may be anybody's: they stay until the end."""

    def version(self):
        settings = ", ".join(f"{key.lower()} = {value}" for key, value in self.settings.items())
        return first_line(self.binary, "version") + (f", {settings}" if settings else "")


class OxicloudAhead1(Oxicloudd):
    name = "oxicloudd-ahead-1"
    settings = {"LOCAL_READ_PREFETCH": "1"}


class OxicloudNone(Oxicloudd):
    name = "oxicloudd-none"
    settings = {"STORAGE_CODEC": "none"}


class Nginx(Server):
    name = program = "nginx"

    def command(self):
        return "nginx", "-p", self.folder, "-e", self.log, "-c", self.configure(f"""
            load_module /usr/lib/nginx/modules/ngx_http_dav_ext_module.so;
            {"user root;" if os.geteuid() == 0 else ""}
            daemon off;
            worker_processes {WORKERS};
            pid {self.folder}/pid;
            error_log {self.log} error;
            events {{ worker_connections 4096; }}
            worker_rlimit_nofile 16384;
            http {{
                access_log off;
                sendfile on;
                tcp_nopush on;
                keepalive_requests 1000000000;
                client_max_body_size 0;
                client_body_temp_path {self.folder}/body;
                proxy_temp_path {self.folder}/unused;
                fastcgi_temp_path {self.folder}/unused;
                uwsgi_temp_path {self.folder}/unused;
                scgi_temp_path {self.folder}/unused;
                server {{
                    listen 127.0.0.1:{self.port};
                    root {self.files};
                    dav_methods PUT DELETE MKCOL COPY MOVE;
                    dav_ext_methods PROPFIND OPTIONS;
                }}
            }}
            """)

    def make(self):
        super().make()
        if not pathlib.Path("/usr/lib/nginx/modules/ngx_http_dav_ext_module.so").exists():
            raise Unavailable("libnginx-mod-http-dav-ext is not installed")

    def version(self):
        return first_line("/usr/sbin/nginx", "-v")


class Apache(Server):
    name, program = "apache", "apache2"
    account = "www-data"  # Apache does not serve as root

    def make(self):
        super().make()
        if os.geteuid() == 0:
            account = pwd.getpwnam(self.account)
            os.chown(self.files, account.pw_uid, account.pw_gid)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            for parent in self.folder.resolve().parents:
                if not parent.stat().st_mode & 0o001:
                    raise Unavailable(f"{parent} is closed to {self.account}: choose a BENCH_DIR")

    def command(self):
        modules = "".join(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"
                          for name in ("mpm_event", "authz_core", "dav", "dav_fs"))
        account = f"User {self.account}\nGroup {self.account}" if os.geteuid() == 0 else ""
        return "apache2", "-D", "FOREGROUND", "-f", self.configure(f"""{modules}{account}
            ServerRoot {self.folder}
            ServerName localhost
            PidFile {self.folder}/pid
            DefaultRuntimeDir {self.folder}
            Listen 127.0.0.1:{self.port}
            ErrorLog {self.log}
            LogLevel error
            StartServers {WORKERS}
            ServerLimit {WORKERS}
            ThreadsPerChild 64
            ThreadLimit 64
            MaxRequestWorkers {64 * WORKERS}
            KeepAlive On
            MaxKeepAliveRequests 0
            KeepAliveTimeout 60
            LimitRequestBody 0
            DavLockDB {self.folder}/locks
            DocumentRoot {self.files}
            <Directory {self.files}>
                Dav On
                Require all granted
            </Directory>
            """)

    def version(self):
        return first_line("/usr/sbin/apache2", "-v").replace("Server version: ", "")


class Lighttpd(Server):
    name = program = "lighttpd"

    def command(self):
        return "lighttpd", "-D", "-f", self.configure(f"""
            server.modules = ("mod_webdav")
            server.document-root = "{self.files}"
            server.bind = "127.0.0.1"
            server.port = {self.port}
            server.errorlog = "{self.log}"
            server.upload-dirs = ("{self.folder}")
            server.max-worker = {WORKERS}
            server.max-fds = 16384
            server.max-keep-alive-requests = 65535
            server.max-keep-alive-idle = 60
            webdav.activate = "enable"
            webdav.is-readonly = "disable"
            """)

    def make(self):
        super().make()
        if not pathlib.Path("/usr/lib/lighttpd/mod_webdav.so").exists():
            raise Unavailable("lighttpd-mod-webdav is not installed")

    def version(self):
        return first_line("/usr/sbin/lighttpd", "-v")


class Rclone(Server):
    name = program = "rclone"

    def command(self):
        return ("rclone", "serve", "webdav", self.files, "--addr", f"127.0.0.1:{self.port}",
                "--config", self.folder / "conf", "--log-level", "ERROR")

    def version(self):
        return first_line("rclone", "version")


ALL = (Oxicloudd, OxicloudAhead1, OxicloudNone, Nginx, Apache, Lighttpd, Rclone)
PEERS = ("nginx", "apache", "lighttpd", "rclone")
