# PostgreSQL as the official image offers it to its users, on any Debian that has the package
ARG BASE
FROM ${BASE}
RUN printf '%s\n' '#!/bin/sh' 'set -e' 'PATH=$(ls -d /usr/lib/postgresql/*/bin):$PATH' \
    'mkdir -p /data && chown postgres /data' 'echo "$POSTGRES_PASSWORD" > /tmp/password && chown postgres /tmp/password' \
    'as() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }' \
    'as initdb --pgdata=/data --username="$POSTGRES_USER" --pwfile=/tmp/password --auth=scram-sha-256 > /dev/null' \
    'echo "host all all all scram-sha-256" >> /data/pg_hba.conf' \
    'echo "CREATE DATABASE $POSTGRES_DB" | as postgres --single -D /data postgres > /dev/null' \
    'exec setpriv --reuid=postgres --regid=postgres --clear-groups postgres -D /data -k /tmp -h "*" "$@"' \
    > /entrypoint && chmod 755 /entrypoint
ENTRYPOINT ["/entrypoint"]
