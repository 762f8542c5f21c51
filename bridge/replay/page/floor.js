// Everything that does not move. Drawn again only when the camera, the size or the colours change.

const BITMAP_BELOW_PX = 4; // smaller cells come from a picture with one pixel per cell
const GRID_FROM_PX = 10;
const LETTER_FROM_PX = 13;
const ARROW_FROM_PX = 8;
const LIMIT_FROM_PX = 20;

class FloorLayer {
  constructor(canvas, replay, camera) {
    this.canvas = canvas;
    this.context = canvas.getContext('2d', { alpha: false });
    this.replay = replay;
    this.camera = camera;
    this.drawn = '';
  }

  draw(theme, ratio) {
    const { canvas, camera } = this;
    const key = [canvas.width, canvas.height, camera.x, camera.y, camera.scale, theme.name].join();
    if (key === this.drawn) return;
    this.drawn = key;
    const c = this.context;
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.fillStyle = theme.outside;
    c.fillRect(0, 0, canvas.width, canvas.height);
    const { width, height, cell_size_m: size } = this.replay.header;
    // Edges of cells in whole device pixels: no seams.
    const pitch = size * camera.scale * ratio;
    const left = camera.screenX(0) * ratio;
    const top = camera.screenY(this.replay.heightM) * ratio;
    this.edgeX = (column) => Math.round(left + column * pitch);
    this.edgeY = (row) => Math.round(top + row * pitch);
    const seen = {
      left: Math.max(Math.floor(-left / pitch), 0),
      right: Math.min(Math.ceil((canvas.width - left) / pitch), width),
      top: Math.max(Math.floor(-top / pitch), 0),
      bottom: Math.min(Math.ceil((canvas.height - top) / pitch), height),
    };
    if (pitch / ratio < BITMAP_BELOW_PX) {
      c.imageSmoothingEnabled = pitch < 1;
      c.drawImage(this.bitmap(theme), left, top, width * pitch, height * pitch);
    } else {
      c.fillStyle = theme.floor;
      c.fillRect(this.edgeX(0), this.edgeY(0), this.edgeX(width) - this.edgeX(0), this.edgeY(height) - this.edgeY(0));
      this.drawZones(c, theme, seen, ratio);
      if (pitch / ratio >= GRID_FROM_PX) this.drawGrid(c, theme, seen);
      this.drawStations(c, theme, seen, pitch, ratio);
      this.drawRacks(c, theme, seen, ratio);
      this.drawBorders(c, theme, pitch, ratio);
      if (pitch / ratio >= LIMIT_FROM_PX) this.drawLimits(c, theme, pitch, ratio);
    }
    c.strokeStyle = theme['rack-edge'];
    c.lineWidth = Math.max(2 * ratio, 1);
    c.strokeRect(left, top, width * pitch, height * pitch);
  }

  drawGrid(c, theme, seen) {
    c.strokeStyle = theme.grid;
    c.lineWidth = 1;
    c.beginPath();
    for (let column = seen.left; column <= seen.right; column++) {
      c.moveTo(this.edgeX(column) + 0.5, this.edgeY(seen.top));
      c.lineTo(this.edgeX(column) + 0.5, this.edgeY(seen.bottom));
    }
    for (let row = seen.top; row <= seen.bottom; row++) {
      c.moveTo(this.edgeX(seen.left), this.edgeY(row) + 0.5);
      c.lineTo(this.edgeX(seen.right), this.edgeY(row) + 0.5);
    }
    c.stroke();
  }

  /** Runs of racks row by row, then a line wherever a rack meets the floor. */
  drawRacks(c, theme, seen, ratio) {
    const { width, height } = this.replay.header;
    const blocked = this.replay.arrays.blocked;
    c.fillStyle = theme.rack;
    c.beginPath();
    for (let row = seen.top; row < seen.bottom; row++) {
      for (let column = seen.left; column < seen.right; column++) {
        if (!blocked[row * width + column]) continue;
        const first = column;
        while (column < seen.right && blocked[row * width + column]) column++;
        c.rect(this.edgeX(first), this.edgeY(row), this.edgeX(column) - this.edgeX(first), this.edgeY(row + 1) - this.edgeY(row));
      }
    }
    c.fill();
    c.strokeStyle = theme['rack-edge'];
    c.lineWidth = Math.max(ratio, 1);
    c.beginPath();
    for (let row = seen.top; row < seen.bottom; row++) {
      for (let column = seen.left; column < seen.right; column++) {
        const here = blocked[row * width + column];
        if (row + 1 < height && here !== blocked[(row + 1) * width + column]) {
          c.moveTo(this.edgeX(column), this.edgeY(row + 1));
          c.lineTo(this.edgeX(column + 1), this.edgeY(row + 1));
        }
        if (column + 1 < width && here !== blocked[row * width + column + 1]) {
          c.moveTo(this.edgeX(column + 1), this.edgeY(row));
          c.lineTo(this.edgeX(column + 1), this.edgeY(row + 1));
        }
      }
    }
    c.stroke();
  }

  drawStations(c, theme, seen, pitch, ratio) {
    const width = this.replay.header.width;
    const letters = pitch / ratio >= LETTER_FROM_PX;
    const inset = Math.max(Math.round(pitch / 14), 1);
    c.textAlign = 'center';
    c.textBaseline = 'middle';
    c.font = `600 ${Math.min(pitch * 0.42, 28 * ratio)}px system-ui, sans-serif`;
    for (const [cell, station] of this.replay.stations) {
      const row = Math.floor(cell / width);
      const column = cell % width;
      if (row < seen.top || row >= seen.bottom || column < seen.left || column >= seen.right) continue;
      const x = this.edgeX(column);
      const y = this.edgeY(row);
      c.fillStyle = theme[STATION_COLOURS[station.key]];
      c.fillRect(x + inset, y + inset, this.edgeX(column + 1) - x - 2 * inset, this.edgeY(row + 1) - y - 2 * inset);
      if (letters) {
        c.fillStyle = theme['station-ink'];
        c.fillText(station.letter, x + pitch / 2, y + pitch / 2);
      }
    }
  }

  /** Hatch the cells that have a speed limit. */
  drawZones(c, theme, seen, ratio) {
    const { traffic } = this.replay;
    if (!traffic.zones.length) return;
    const { width } = this.replay.header;
    c.fillStyle = theme.zone;
    c.strokeStyle = theme['zone-edge'];
    c.lineWidth = Math.max(ratio, 1);
    c.beginPath();
    for (let row = seen.top; row < seen.bottom; row++) {
      for (let column = seen.left; column < seen.right; column++) {
        if (traffic.limit(row * width + column) === null) continue;
        const [left, top, right, bottom] = [this.edgeX(column), this.edgeY(row), this.edgeX(column + 1), this.edgeY(row + 1)];
        c.fillRect(left, top, right - left, bottom - top);
        addHatch(c, left, top, right, bottom);
      }
    }
    c.stroke();
  }

  drawLimits(c, theme, pitch, ratio) {
    const { width } = this.replay.header;
    c.fillStyle = theme['zone-ink'];
    c.font = `600 ${Math.min(pitch * 0.3, 16 * ratio)}px system-ui, sans-serif`;
    c.textAlign = 'left';
    c.textBaseline = 'top';
    for (const { first, text } of this.replay.traffic.zones) {
      c.fillText(text, this.edgeX(first % width) + pitch / 16, this.edgeY(Math.floor(first / width)) + pitch / 16);
    }
  }

  /** A triangle in the way of every border that is open one way, a line along every closed one. */
  drawBorders(c, theme, pitch, ratio) {
    const { traffic, header: { width } } = this.replay;
    c.strokeStyle = c.fillStyle = theme.ink;
    c.lineWidth = Math.max(pitch / 14, ratio);
    c.beginPath();
    for (const [first, second] of traffic.closed) {
      const [column, row] = [second % width, Math.floor(second / width)];
      c.moveTo(this.edgeX(column), this.edgeY(row));
      if (second === first + 1) c.lineTo(this.edgeX(column), this.edgeY(row + 1));
      else c.lineTo(this.edgeX(column + 1), this.edgeY(row));
    }
    c.stroke();
    if (pitch / ratio < ARROW_FROM_PX) return;
    c.beginPath();
    for (const [first, second] of traffic.oneWay) {
      const dx = second % width - first % width;
      const dy = Math.floor(second / width) - Math.floor(first / width);
      const x = this.edgeX(first % width) + pitch * (1 + dx) / 2;
      const y = this.edgeY(Math.floor(first / width)) + pitch * (1 + dy) / 2;
      addArrow(c, x, y, dx, dy, Math.min(pitch * 0.13, 9 * ratio));
    }
    c.fill();
  }

  bitmap(theme) {
    if (this.picture && this.picture.theme === theme.name) return this.picture;
    const { width, height } = this.replay.header;
    const picture = document.createElement('canvas');
    picture.width = width;
    picture.height = height;
    picture.theme = theme.name;
    const c = picture.getContext('2d');
    const image = c.createImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    const rack = littleEndian(theme.rack);
    const floor = littleEndian(theme.floor);
    const zone = littleEndian(theme.zone);
    this.replay.arrays.blocked.forEach((blocked, cell) => {
      pixels[cell] = blocked ? rack : this.replay.traffic.limit(cell) === null ? floor : zone;
    });
    for (const [cell, station] of this.replay.stations) pixels[cell] = littleEndian(theme[STATION_COLOURS[station.key]]);
    c.putImageData(image, 0, 0);
    this.picture = picture;
    return picture;
  }
}

const STATION_COLOURS = { parking: 'parking', chargers: 'charger', pickups: 'pickup', deliveries: 'delivery' };

/** A colour #rrggbb as a pixel of canvas image data. */
function littleEndian(colour) {
  const number = parseInt(colour.slice(1, 7), 16);
  return (0xff000000 | (number & 255) << 16 | (number & 0xff00) | number >> 16) >>> 0;
}
