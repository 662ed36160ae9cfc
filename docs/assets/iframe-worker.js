// Search runs in a worker, which browsers refuse to start for pages opened from disk: there, a hidden frame stands in.
if (location.protocol === "file:") {
  // As with a worker, each side gets a copy of its own: arrays of another frame are not quite arrays here.
  const deliver = (to, frame, data) =>
    to.dispatchEvent(new frame.MessageEvent("message", { data: frame.structuredClone(data) }));

  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => deliver(this, window, data);
      const script = inside.document.createElement("script");
      script.src = address;
      script.addEventListener("load", () => {
        this.waiting.forEach((data) => deliver(inside, inside, data));
        this.waiting = null;
      });
      inside.document.body.append(script);
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else deliver(this.frame.contentWindow, this.frame.contentWindow, data);
    }

    terminate() {
      this.frame.remove();
    }
  };
}
