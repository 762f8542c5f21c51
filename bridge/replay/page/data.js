// The payload turned back into arrays: the inverse of bridge/replay/encoding.py.

const PAUSE = { drives: 1, served: 2, halted: 3 }; // as in bridge/warehouse/pauses.py
const FLAG = { alive: 1, loaded: 2, task: 4, refused: 8, jumped: 16 };

/** Inflate the payload. Needs Chrome 80, Edge 80, Firefox 113 or Safari 16.4. */
async function inflate(base64) {
  if (typeof DecompressionStream === 'undefined') {
    throw new Error('This browser is too old for the replay. It needs Chrome 80, Edge 80, Firefox 113 or Safari 16.4.');
  }
  const text = atob(base64);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < packed.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Undo byte planes, differences and the order by series; returns values in the order of time. */
function restore(bytes, offset, type, shape) {
  const Kind = { '<u1': Uint8Array, '<i2': Int16Array, '<i4': Int32Array }[type];
  const count = shape.reduce((product, size) => product * size, 1);
  const frames = shape[0];
  const series = frames ? count / frames : 0;
  const width = Kind.BYTES_PER_ELEMENT;
  const values = new Kind(count);
  for (let s = 0, from = offset; s < series; s++) {
    let value = 0;
    for (let t = 0, to = s; t < frames; t++, to += series, from++) {
      for (let plane = 0; plane < width; plane++) value += bytes[from + plane * count] << (8 * plane);
      values[to] = value; // cut to the width of the type
      value = values[to];
    }
  }
  return values;
}

/** One recorded episode. Frame t is the state after t steps; robots are numbered role after role. */
class Replay {
  constructor(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset);
    const length = view.getUint32(0, true);
    this.header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
    if (this.header.format !== 1) throw new Error(`This page reads replays of format 1, got ${this.header.format}.`);
    this.arrays = {};
    let offset = 4 + length;
    for (const { name, type, shape } of this.header.arrays) {
      const values = restore(bytes, offset, type, shape);
      this.arrays[name] = values;
      offset += values.byteLength;
    }
    this.steps = this.header.steps;
    this.widthM = this.header.width * this.header.cell_size_m;
    this.heightM = this.header.height * this.header.cell_size_m;
    this.hasHeading = this.header.drive !== 'grid';
    this.robots = [];
    this.header.roles.forEach((role, index) => {
      const { radius_m: radius, length_m: length, width_m: width } = role;
      // Of a rectangle, radius is that of the circle around it; how far it reaches ahead, and to its nearest side.
      const front = length ? length / 2 / radius : 1;
      const inner = length ? Math.min(length, width) / 2 / radius : 1;
      for (let slot = 0; slot < role.count; slot++) {
        this.robots.push({ name: `${role.name}_${slot}`, role: index, slot, radius, front, inner });
      }
    });
    this.count = this.robots.length;
    this.stations = new Map();
    for (const [key, letter, label] of STATIONS) {
      for (const cell of this.arrays[key]) this.stations.set(cell, { letter, label, key });
    }
    this.traffic = new Traffic(this);
    this.messages = this.header.messages ? new Messages(this) : null;
    this.indexEvents();
    this.sumUp();
  }

  indexEvents() {
    const { event_step: step, event_end: end } = this.arrays;
    this.eventStart = new Int32Array(this.steps + 2);
    for (const at of step) this.eventStart[at + 1]++;
    for (let t = 0; t <= this.steps; t++) this.eventStart[t + 1] += this.eventStart[t];
    this.kinds = this.header.kinds.map((kind) => ({ ...kind, events: [], total: 0 }));
    for (let event = 0; event < step.length; event++) {
      const kind = this.kinds[this.arrays.event_kind[event]];
      kind.events.push(event);
      if (step[event] <= this.header.warm_up_steps) continue; // as in the figures
      // Deliveries and the like are counted by robot; a deadlock is one, however many robots it holds.
      kind.total += BY_ROBOT.has(kind.name) ? end[event] - (event ? end[event - 1] : 0) : 1;
    }
  }

  /** Sums from the start of the episode to each frame. */
  sumUp() {
    const sum = (values) => {
      const total = new Float64Array(values.length);
      for (let t = 0, all = 0; t < values.length; t++) total[t] = all += values[t];
      return total;
    };
    const delivered = new Float64Array(this.steps + 1);
    const kind = this.kinds.find((one) => one.name === 'delivery');
    for (const event of kind ? kind.events : []) delivered[this.arrays.event_step[event]] += this.robotsOf(event).length;
    this.deliveries = sum(delivered);
    this.collisions = sum(this.arrays.num_half_contacts).map((half) => half / 2);
    const collision = this.kinds.find((one) => one.name === 'collision');
    if (collision) collision.total = this.since(this.collisions, this.steps);
    this.refusals = sum(this.arrays.num_refused);
    this.someRunEmpty = this.arrays.charge.some((charge, at) => charge <= 0 && this.arrays.flags[at] & FLAG.alive);
    this.onFloor = new Float64Array(this.steps + 1);
    this.loads = new Float64Array(this.steps + 1);
    for (let t = 0, at = 0; t <= this.steps; t++) {
      for (let robot = 0; robot < this.count; robot++, at++) {
        const flags = this.arrays.flags[at];
        this.onFloor[t] += flags & FLAG.alive ? 1 : 0;
        this.loads[t] += (flags & FLAG.alive) && (flags & FLAG.loaded) ? 1 : 0;
      }
    }
  }

  /** From which frame on figures count at frame t: after the warm-up, unless it still lasts. */
  start(t) { return t > this.header.warm_up_steps ? this.header.warm_up_steps : 0; }

  /** Of sums from the start of the episode: what was added since `start(t)`. */
  since(total, t) {
    const start = this.start(t);
    return total[t] - (start ? total[start] : 0);
  }

  robotsOf(event) {
    const end = this.arrays.event_end;
    return this.arrays.event_robots.subarray(event ? end[event - 1] : 0, end[event]);
  }

  /** Events that concern a robot, in order. */
  eventsOf(robot) {
    const found = [];
    for (let event = 0; event < this.arrays.event_step.length; event++) {
      if (this.robotsOf(event).includes(robot)) found.push(event);
    }
    return found;
  }

  flags(t, robot) { return this.arrays.flags[t * this.count + robot]; }
  x(t, robot) { return this.arrays.x[t * this.count + robot] * this.header.position_resolution_m; }
  y(t, robot) { return this.arrays.y[t * this.count + robot] * this.header.position_resolution_m; }
  heading(t, robot) { return this.arrays.heading[t * this.count + robot] * 2 * Math.PI / this.header.heading_levels; }
  charge(t, robot) { return this.arrays.charge[t * this.count + robot] / this.header.charge_levels; }
  /** A picker that is on its way to a carrier, or stands beside one: other robots without a task go where there is a sign. */
  isCalled(t, robot) {
    const goal = this.goal(t, robot);
    return this.header.roles[this.robots[robot].role].job === 'pick' && goal >= 0 && !this.stations.has(goal);
  }

  /** Why a robot stood in the step before frame t; values of PAUSE. */
  pause(t, robot) { return this.arrays.pauses[t * this.count + robot]; }
  goal(t, robot) { return this.arrays.goal[t * this.count + robot]; }

  cellAt(x, y) {
    const { width, height, cell_size_m: size } = this.header;
    const column = Math.min(Math.max(Math.floor(x / size), 0), width - 1);
    const row = Math.min(Math.max(height - 1 - Math.floor(y / size), 0), height - 1);
    return row * width + column;
  }

  centre(cell) {
    const { width, height, cell_size_m: size } = this.header;
    return [(cell % width + 0.5) * size, (height - Math.floor(cell / width) - 0.5) * size];
  }

  /** The latest scan at or before frame t: its frame, and the distances in m. */
  scan(t, robot) {
    const { beams, range_m: range, stride, levels } = this.header.lidar;
    const number = Math.floor(t / stride);
    const start = (number * this.count + robot) * beams;
    const values = this.arrays.lidar.subarray(start, start + beams);
    return { frame: number * stride, distances: Array.from(values, (value) => value * range / levels) };
  }

  /** The values of a further field; null where there is none. */
  field(number, t, robot) {
    const { size, resolution } = this.header.fields[number];
    const start = (t * this.count + robot) * size;
    const values = this.arrays[`field_${number}`].subarray(start, start + size);
    return Array.from(values, (value) => value === this.header.missing ? null : value * resolution);
  }
}

const STATIONS = [
  ['parking', 'P', 'parking'],
  ['chargers', 'C', 'charger'],
  ['pickups', 'S', 'pick-up'],
  ['deliveries', 'E', 'delivery'],
];

const BY_ROBOT = new Set(['delivery', 'pickup', 'help', 'despawn', 'respawn']);
