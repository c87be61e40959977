# SPDX-License-Identifier: Apache-2.0
"""Two small Postgres servers (Debian's postgresql): one that insists on TLS, one without TLS. No disk syncs, trust for
everybody: they hold nothing."""

import glob
import os
import pwd
import shutil
import subprocess

import internet

HBA_TLS = "hostssl all all all trust\n"
HBA_PLAIN = "host all all all trust\n"
SETTINGS = """
port = 5432
shared_buffers = 8MB
fsync = off
full_page_writes = off
max_connections = 40
autovacuum = off
unix_socket_directories = ''
logging_collector = off
max_wal_size = 64MB
min_wal_size = 32MB
"""


def programs():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"), key=lambda p: int(p.split("/")[4]))
    if not found:
        raise SystemExit("lab: no Postgres server found (apt-get install postgresql)")
    return os.path.dirname(found[-1])


def start(folder, authority, spawn):
    """Makes both clusters under `folder` and starts them with spawn(name, argv, user)."""
    owner = pwd.getpwnam("postgres")
    os.makedirs(folder, exist_ok=True)
    os.chmod(folder, 0o755)
    os.chown(folder, owner.pw_uid, owner.pw_gid)
    first = f"{folder}/tls"
    subprocess.run([f"{programs()}/initdb", "-D", first, "--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8",
                    "--locale=C", "--wal-segsize=16"],
                   check=True, stdout=subprocess.DEVNULL, user="postgres", group="postgres", cwd=folder,
                   extra_groups=[])
    subprocess.run(["cp", "-a", first, f"{folder}/plain"], check=True)
    authority.write_leaf("db.example", f"{first}/server")
    shutil.chown(f"{first}/server.key", "postgres", "postgres")
    for name, addresses, hba, ssl in [
            ("tls", (internet.DB_V4, internet.DB_V6), HBA_TLS,
             "ssl = on\nssl_cert_file = 'server.pem'\nssl_key_file = 'server.key'\n"),
            ("plain", (internet.PLAINDB_V4, internet.PLAINDB_V6), HBA_PLAIN, "ssl = off\n")]:
        with open(f"{folder}/{name}/postgresql.conf", "a") as config:
            config.write(SETTINGS + ssl + f"listen_addresses = '{','.join(addresses)}'\n")
        with open(f"{folder}/{name}/pg_hba.conf", "w") as config:
            config.write(hba)
        spawn(f"postgres-{name}", [f"{programs()}/postgres", "-D", f"{folder}/{name}"], "postgres")
