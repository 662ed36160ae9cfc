// What tests measure in an open page, as one object of functions of one argument.
({
  /** Of each named plot: its size, source and description, its marks, and whether they lie within its axes. */
  plots(names) {
    const inside = (mark, area) => {
      const box = mark.getBBox(), { e, f } = mark.transform.baseVal[0]?.matrix ?? { e: 0, f: 0 }, slack = 8;
      return box.x + e > area.x - slack && box.x + box.width + e < area.x + area.width + slack
        && box.y + f > area.y - slack && box.y + box.height + f < area.y + area.height + slack;
    };
    return Object.fromEntries(names.map((name) => {
      const svg = document.querySelector(`#plot-${name} svg`), { width, height } = svg.getBoundingClientRect();
      const marks = [...svg.querySelectorAll(".marks > *")], area = svg.querySelector(".area")?.getBBox();
      return [name, {
        size: [width, height],
        text: svg.outerHTML,
        label: svg.getAttribute("aria-label"),
        marks: marks.map((mark) => `${mark.tagName}.${mark.getAttribute("class")}`),
        inside: marks.every((mark) => inside(mark, area)),
      }];
    }));
  },

  /** The texts of those nodes that are on the screen. */
  seen(selector) {
    return [...document.querySelectorAll(selector)].filter((node) => node.offsetParent).map((node) => node.textContent);
  },

  /** Class, upper and lower end of a plot's marks, with the scale taken from its first two labelled ticks. */
  readOff(name) {
    const svg = document.querySelector(`#plot-${name} svg`), at = (node, key) => Number(node.getAttribute(key));
    const labels = [...svg.querySelectorAll("g text[text-anchor=end]")].filter((t) => /^[0-9.]+( %)?$/.test(t.textContent));
    const [low, high] = labels.slice(0, 2).map((text) => {
      const number = parseFloat(text.textContent);
      return { y: at(text, "y") - 4, value: text.textContent.includes("%") ? number / 100 : number };
    });
    const value = (y) => low.value + ((y - low.y) / (high.y - low.y)) * (high.value - low.value);
    return [...svg.querySelectorAll(".marks .point, .marks rect:not(.tint)")].map((mark) => {
      const y = mark.transform.baseVal[0]?.matrix.f ?? (at(mark, "cy") || at(mark, "y"));
      return [mark.getAttribute("class"), value(y), value(y + at(mark, "height"))];
    });
  },

  /** The contrast (WCAG 2) of every visible text with what is behind it. */
  contrast() {
    const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
    const context = canvas.getContext("2d", { willReadFrequently: true });
    const rgba = (colour) => {
      context.clearRect(0, 0, 1, 1);
      context.fillStyle = colour;
      context.fillRect(0, 0, 1, 1);
      return [...context.getImageData(0, 0, 1, 1).data];
    };
    const light = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const bright = ([r, g, b]) => 0.2126 * light(r / 255) + 0.7152 * light(g / 255) + 0.0722 * light(b / 255);
    const behind = (node) => {
      const colour = rgba(getComputedStyle(node).backgroundColor);
      return colour[3] === 255 ? colour : behind(node.parentElement);
    };
    const hasText = (node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    const shown = [...document.body.querySelectorAll("*:not(script, noscript)")].filter((n) => hasText(n) && n.getClientRects().length);
    return shown.map((node) => {
      const style = getComputedStyle(node), front = bright(rgba(node instanceof SVGElement ? style.fill : style.color));
      const back = bright(behind(node));
      return [(Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05), node.outerHTML.slice(0, 90)];
    });
  },

  /** Elements outside scrolling boxes that end to the right of the screen. */
  tooWide() {
    const nodes = [...document.querySelectorAll("main *:not(svg *)")].filter((n) => !n.closest(".scroll") && n.getClientRects().length);
    return nodes.filter((n) => n.getBoundingClientRect().right > innerWidth + 0.5).map((n) => n.outerHTML.slice(0, 80));
  },
})
