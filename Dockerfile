# Only the program, built from the lock file, run by a user that owns only its data.
# docs/deployment.md describes its use.

ARG RUST=1.95
ARG DEBIAN=bookworm

FROM rust:${RUST}-slim-${DEBIAN} AS build
WORKDIR /src
COPY . .
# The target directory is a cache outside the image, so the program is copied out of it.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --release -p chronolith-node \
    && install -D target/release/chronolith /out/usr/local/bin/chronolith \
    && install -D -m 644 /etc/ssl/certs/ca-certificates.crt /out/etc/ssl/certs/ca-certificates.crt

FROM debian:${DEBIAN}-slim
COPY --from=build /out /
RUN install -d -o 10001 -g 10001 /var/lib/chronolith
USER 10001:10001
# Where the settings file is looked for. Without one, the environment or the default counts.
WORKDIR /etc/chronolith
# Overrides `dataDir` of the settings file, so that archives are in the volume.
ENV DATA_DIR=/var/lib/chronolith
VOLUME /var/lib/chronolith
# Public API, health and metrics, fee document API. The admin listener is reachable inside the container only.
EXPOSE 8080 9464 9999
ENTRYPOINT ["chronolith"]
CMD ["run"]
