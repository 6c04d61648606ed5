# Only the program and what it loads, built from the lock file, run by a user that owns only its data. There is no shell
# and no package manager. docs/deployment.md describes its use, and how to pin the image that it is built with.

ARG BUILD_IMAGE=rust:1.95.0-slim-bookworm

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY . .
# Without `chronolith demo`, which needs PostgreSQL's programs. The target directory is a cache outside the image, so
# the program is copied out of it, with the libraries and the loader that it names, and the certificates that it trusts.
# /etc/hosts counts before DNS, as on other systems: without the last file it would not.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --release -p chronolith-node --no-default-features \
    && install -D target/release/chronolith /out/usr/local/bin/chronolith \
    && ldd target/release/chronolith | grep -o '/[^ ]*' | xargs cp --parents --dereference --target-directory=/out \
    && install -D -m 644 /etc/ssl/certs/ca-certificates.crt /out/etc/ssl/certs/ca-certificates.crt \
    && echo 'hosts: files dns' >/out/etc/nsswitch.conf \
    && install -d /empty

FROM scratch
COPY --from=build /out /
COPY --from=build --chown=10001:10001 /empty /var/lib/chronolith
USER 10001:10001
# Where the settings file is looked for. Without one, the environment or the default counts.
WORKDIR /etc/chronolith
# For `docker exec chronolith chronolith …`.
ENV PATH=/usr/local/bin
# Overrides `dataDir` of the settings file, so that archives are in the volume.
ENV DATA_DIR=/var/lib/chronolith
VOLUME /var/lib/chronolith
# Public API, health and metrics, fee document API. The admin listener is reachable inside the container only.
EXPOSE 8080 9464 9999
ENTRYPOINT ["/usr/local/bin/chronolith"]
CMD ["run"]
