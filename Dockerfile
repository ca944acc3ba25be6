# A small image: build with the toolchain, run without it.
FROM rust:1-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev \
    && cargo build --release --locked -p thermocline-server

FROM debian:bookworm-slim
COPY --from=build /src/target/release/thermocline /usr/bin/thermocline
COPY docs/memcached.md /usr/share/doc/thermocline/memcached.md
USER nobody
EXPOSE 11211 9191
# Inside a container loopback reaches nobody: listen on all its addresses. The memory budget follows its limit.
ENV THERMOCLINE_MEMCACHED=0.0.0.0:11211 THERMOCLINE_HTTP=0.0.0.0:9191
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/thermocline"]
CMD ["serve"]
