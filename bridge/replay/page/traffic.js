// Where robots may drive one way only, and where they have to be slow; as in bridge/warehouse/traffic_plan.py.

class Traffic {
  constructor(replay) {
    this.replay = replay;
    this.oneWay = []; // [cell that is left, cell that is entered]
    this.closed = []; // [upper or left cell, the other one]
    this.findBorders();
    this.zones = []; // { limit in m/s, first cell }
    this.findZones();
  }

  /** Borders between free cells that are not open both ways. */
  findBorders() {
    const { blocked, open_moves: open } = this.replay.arrays;
    const { width, height } = this.replay.header;
    const [up, right, down, left] = [1, 2, 4, 8];
    const look = (cell, other, on, back) => {
      if (blocked[cell] || blocked[other]) return;
      const there = open[cell] & on;
      const here = open[other] & back;
      if (!there && !here) this.closed.push([cell, other]);
      else if (!here) this.oneWay.push([cell, other]);
      else if (!there) this.oneWay.push([other, cell]);
    };
    for (let cell = 0; cell < width * height; cell++) {
      if ((cell + 1) % width) look(cell, cell + 1, right, left);
      if (cell + width < width * height) look(cell, cell + width, down, up);
    }
  }

  /** The limit of a cell in m/s; null where there is none. */
  limit(cell) {
    const { limit } = this.replay.arrays;
    if (!limit || limit[cell] === this.replay.header.missing) return null;
    return limit[cell] * this.replay.header.limit_resolution_mps;
  }

  findZones() {
    const { limit } = this.replay.arrays;
    const { width, height, missing } = this.replay.header;
    if (!limit) return;
    const seen = new Uint8Array(limit.length);
    for (let first = 0; first < limit.length; first++) {
      if (seen[first] || limit[first] === missing) continue;
      seen[first] = 1;
      this.zones.push({ first, text: String(Number(this.limit(first).toPrecision(3))) });
      const waiting = [first];
      while (waiting.length) {
        const cell = waiting.pop();
        const column = cell % width;
        const others = [cell - width, cell + width, column > 0 ? cell - 1 : -1, column + 1 < width ? cell + 1 : -1];
        for (const other of others) {
          if (other < 0 || other >= width * height || seen[other] || limit[other] !== limit[first]) continue;
          seen[other] = 1;
          waiting.push(other);
        }
      }
    }
  }
}

/** Two lines up to the right through a square, which go on in the next one. */
function addHatch(c, left, top, right, bottom) {
  const x = (left + right) / 2;
  const y = (top + bottom) / 2;
  for (const [x0, y0, x1, y1] of [[left, y, x, top], [left, bottom, right, top], [x, bottom, right, y]]) {
    c.moveTo(x0, y0);
    c.lineTo(x1, y1);
  }
}

/** A triangle that points along (dx, dy), one of the four sides; y points down. */
function addArrow(c, x, y, dx, dy, size) {
  const right = dx * size;
  const down = dy * size;
  c.moveTo(x + right, y + down);
  c.lineTo(x - right - down, y - down + right);
  c.lineTo(x - right + down, y - down - right);
  c.closePath();
}
