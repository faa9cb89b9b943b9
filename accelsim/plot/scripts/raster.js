// Pixels, written directly: with many events that is far quicker than drawing rectangles.
class Raster {
  resize(width, height, ratio) {
    Object.assign(this, { width, height, ratio });
    this.image = new ImageData(Math.max(1, width), Math.max(1, height));
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.clip(0, height);
  }

  // Rows, in pixels, outside which nothing is written.
  clip(top, bottom) {
    this.top = Math.max(0, Math.round(top));
    this.bottom = Math.min(this.height, Math.round(bottom));
  }

  // A rectangle in pixels.
  fill(left, top, right, bottom, colour) {
    const first = Math.max(left, 0), last = Math.min(right, this.width);
    if (last <= first) return;
    for (let row = Math.max(top, this.top); row < Math.min(bottom, this.bottom); row++) {
      this.pixels.fill(colour, row * this.width + first, row * this.width + last);
    }
  }

  // A rectangle in the units of the page.
  box(left, top, width, height, colour) {
    const { ratio } = this;
    this.fill(Math.round(left * ratio), Math.round(top * ratio), Math.round((left + width) * ratio), Math.round((top + height) * ratio), colour);
  }

  // One bar for each bin from `left` on, value * factor * height high, upon what `levels` says of earlier bars; it is
  // raised by these. `colour` is a colour, or gives that of a bin. What is not 0 is seen.
  bars(values, factor, left, top, height, colour, levels = null) {
    const { ratio, width, pixels } = this, base = Math.round((top + height) * ratio), tall = base - Math.round(top * ratio);
    const start = Math.round(left * ratio), varies = typeof colour === 'function';
    for (let bin = 0; bin < values.length && start + bin < width; bin++) {
      const value = values[bin] * factor;
      if (!(value > 0)) continue;
      const below = levels ? levels[bin] : 0, above = below + value;
      if (levels) levels[bin] = above;
      const last = base - Math.round(Math.min(1, below) * tall);
      const first = Math.max(this.top, Math.min(last - 1, base - Math.round(Math.min(1, above) * tall)));
      const shade = varies ? colour(bin) : colour;
      for (let row = first, at = first * width + start + bin; row < last && row < this.bottom; row++, at += width) pixels[at] = shade;
    }
  }
}

// A colour as the raster holds it: '#rrggbb', mixed with another one where it is to be fainter.
function packed32(colour, share = 1, ground = '#ffffff') {
  const key = `${colour} ${share} ${ground}`;
  if (!packed32.known.has(key)) {
    const [one, other] = [colour, ground].map((text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)));
    const [red, green, blue] = one.map((value, part) => Math.round(value * share + other[part] * (1 - share)));
    packed32.known.set(key, ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0);
  }
  return packed32.known.get(key);
}
packed32.known = new Map();

// Hues a golden angle apart, so that neighbours differ.
function operatorColour(operator) {
  if (operator < 0) return '#888888';
  const hue = (operator * 137.508 + 205) % 360, channel = (shift) => {
    const at = (shift + hue / 30) % 12;
    return Math.round(255 * (0.43 - 0.224 * Math.max(-1, Math.min(at - 3, 9 - at, 1)))).toString(16).padStart(2, '0');
  };
  return `#${channel(0)}${channel(8)}${channel(4)}`;
}
