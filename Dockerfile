# syntax=docker/dockerfile:1
# The command line and the recipes with the versions of requirements.lock:
#     docker build -t danish-asr .
#     docker run --rm --gpus all --user $(id -u):$(id -g) -v "$PWD:/work" danish-asr danish-asr doctor
FROM python:3.11-slim-bookworm
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /opt/danish-asr
# The packages are a layer of their own, which a change of the code does not build again.
COPY requirements.lock ./
RUN pip install --no-deps --requirement requirements.lock
COPY . ./
RUN pip install --no-deps --no-build-isolation --editable .
# Users other than root have no home directory here.
ENV HOME=/tmp PYTHONPATH=/opt/danish-asr
WORKDIR /work
CMD ["danish-asr", "--help"]
