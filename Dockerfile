# The API, the migrations and a rehearsal worker. No credential goes into a layer: secrets come as
# files at run time, and .dockerignore keeps local data out of the build.
FROM python:3.12-slim

WORKDIR /opt/omnai
COPY requirements.txt ./
RUN pip install --no-cache-dir --only-binary=:all: --require-hashes --requirement requirements.txt
COPY pyproject.toml README.md model-lock.json ./
COPY omnai omnai
COPY api api
COPY worker worker
COPY pipeline pipeline
COPY migrations migrations
COPY samples samples
RUN pip install --no-cache-dir --no-deps --no-build-isolation --editable . \
    && python -m compileall -q omnai api worker pipeline \
    && useradd --system --uid 10001 --home-dir /nonexistent omnai \
    && install -d -o omnai -g omnai -m 0700 /data
USER omnai
ENV OMNAI_DATA_DIR=/data PYTHONDONTWRITEBYTECODE=1
STOPSIGNAL SIGTERM
ENTRYPOINT ["omnai"]
CMD ["--help"]
