# `docker build -t certcal . && docker run --rm -v "$PWD/runs:/work/runs" certcal` certifies the demo and leaves its page in runs/demo.
FROM python:3.12-slim
COPY . /src
# The CPU build of torch: the usual one brings gigabytes for GPUs.
RUN pip install --no-cache-dir torch --index-url https://download.pytorch.org/whl/cpu && pip install --no-cache-dir /src
WORKDIR /work
ENTRYPOINT ["certcal"]
CMD ["demo"]
