# `docker build -t certcal . && docker run --rm -v "$PWD/runs:/certified/runs" certcal` certifies the demo and leaves its page in runs/demo.
FROM python:3.12-slim
COPY . /source
# By default torch with GPU support. For a small image of the CPU build: --build-arg OPTIONS="--index-url …", as torch's site says.
ARG OPTIONS=""
RUN pip install --no-cache-dir $OPTIONS torch && pip install --no-cache-dir /source
WORKDIR /certified
ENTRYPOINT ["certcal"]
CMD ["demo"]
