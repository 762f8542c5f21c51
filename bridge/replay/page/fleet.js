// Robots and all that moves with them.

const SIGN_STEPS = 5; // so long a collision stays marked on the floor
const SMALLEST_PX = 2.8; // radius: on large floors robots are drawn larger than they are, to be seen at all
const NUMBERS_FROM_PX = 8;

class FleetLayer {
  constructor(canvas, replay, camera, routes) {
    this.canvas = canvas;
    this.context = canvas.getContext('2d');
    this.replay = replay;
    this.camera = camera;
    this.routes = routes;
    // At the time drawn last: places in m, heading, and whether the robot is on the floor.
    this.x = new Float32Array(replay.count);
    this.y = new Float32Array(replay.count);
    this.heading = new Float32Array(replay.count);
    this.shown = new Uint8Array(replay.count);
    this.byRole = replay.header.roles.map((_, role) => replay.robots.flatMap((robot, k) => (robot.role === role ? [k] : [])));
  }

  /** Places between two frames: straight lines, but no line from where a robot left to where it came back. */
  place(time) {
    const { replay } = this;
    const t = Math.floor(time);
    const next = Math.min(t + 1, replay.steps);
    const share = time - t;
    for (let robot = 0; robot < replay.count; robot++) {
      const now = replay.flags(t, robot);
      const then = replay.flags(next, robot);
      const part = now & then & FLAG.alive && !(then & FLAG.jumped) ? share : 0;
      this.shown[robot] = now & FLAG.alive;
      const x = replay.x(t, robot);
      const y = replay.y(t, robot);
      const heading = replay.heading(t, robot);
      let turn = replay.heading(next, robot) - heading;
      turn -= 2 * Math.PI * Math.round(turn / (2 * Math.PI));
      this.x[robot] = x + (replay.x(next, robot) - x) * part;
      this.y[robot] = y + (replay.y(next, robot) - y) * part;
      this.heading[robot] = heading + turn * part;
    }
  }

  radius(robot) {
    return Math.max(this.replay.robots[robot].radius * this.camera.scale, SMALLEST_PX);
  }

  /** Where and how a robot is drawn, in pixels. */
  drawn(robot) {
    const { camera } = this;
    return {
      x: camera.screenX(this.x[robot]), y: camera.screenY(this.y[robot]), radius: this.radius(robot), heading: this.heading[robot],
    };
  }

  /** The robot at a point of the canvas; -1 for none. */
  at(sx, sy) {
    let best = -1;
    let nearest = Infinity;
    for (let robot = 0; robot < this.replay.count; robot++) {
      if (!this.shown[robot]) continue;
      const distance = Math.hypot(this.camera.screenX(this.x[robot]) - sx, this.camera.screenY(this.y[robot]) - sy);
      if (distance < Math.max(this.radius(robot) + 3, 9) && distance < nearest) {
        best = robot;
        nearest = distance;
      }
    }
    return best;
  }

  draw(time, selected, showTargets, theme, ratio) {
    const c = this.context;
    const t = Math.floor(time);
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, this.camera.width, this.camera.height);
    const seen = this.byRole.map((robots) => robots.filter((robot) => this.inView(robot)));
    if (showTargets) this.drawTargets(c, t, theme);
    if (selected >= 0 && this.shown[selected]) {
      if (this.replay.header.lidar) this.drawScan(c, t, selected, theme);
      this.drawRoute(c, t, selected, theme);
      if (this.replay.messages) this.drawHeard(c, t, selected, theme);
    }
    seen.forEach((robots, role) => this.drawBodies(c, robots, role, theme));
    const all = seen.flat();
    this.drawLoads(c, t, all, theme);
    this.drawEmpty(c, t, all, theme);
    if (this.replay.hasHeading) this.drawHeadings(c, all, theme);
    this.drawRefused(c, t, all, theme);
    this.drawNumbers(c, t, all, theme);
    if (selected >= 0 && this.shown[selected]) this.drawSelection(c, selected, theme);
    this.drawSigns(c, t, theme);
  }

  inView(robot) {
    if (!this.shown[robot]) return false;
    const radius = this.radius(robot) * 2;
    const sx = this.camera.screenX(this.x[robot]);
    const sy = this.camera.screenY(this.y[robot]);
    return sx > -radius && sy > -radius && sx < this.camera.width + radius && sy < this.camera.height + radius;
  }

  drawTargets(c, t, theme) {
    const { replay, camera } = this;
    c.lineWidth = 1;
    c.globalAlpha = 0.65;
    this.byRole.forEach((robots, role) => {
      c.strokeStyle = theme.name === 'dark' ? theme.ink : ROLE_COLOURS[role % ROLE_COLOURS.length];
      c.beginPath();
      for (const robot of robots) {
        const goal = replay.goal(t, robot);
        if (!this.shown[robot] || goal < 0 || !(replay.flags(t, robot) & FLAG.task || replay.isCalled(t, robot))) continue;
        const [x, y] = replay.centre(goal);
        c.moveTo(camera.screenX(this.x[robot]), camera.screenY(this.y[robot]));
        c.lineTo(camera.screenX(x), camera.screenY(y));
      }
      c.stroke();
    });
    c.globalAlpha = 1;
  }

  /** The shortest way on the empty floor from where the robot is to its target. */
  drawRoute(c, t, robot, theme) {
    const { replay, camera } = this;
    const goal = replay.goal(t, robot);
    if (goal < 0) return;
    const cells = this.routes.path(replay.cellAt(replay.x(t, robot), replay.y(t, robot)), goal);
    const trace = () => {
      c.beginPath();
      c.moveTo(camera.screenX(this.x[robot]), camera.screenY(this.y[robot]));
      cells.forEach((cell, k) => {
        if (k === 0 && cells.length > 1) return; // the robot itself stands there
        const [x, y] = replay.centre(cell);
        c.lineTo(camera.screenX(x), camera.screenY(y));
      });
      c.stroke();
    };
    c.lineJoin = c.lineCap = 'round';
    c.strokeStyle = theme.halo;
    c.lineWidth = 6;
    trace();
    c.strokeStyle = theme.route;
    c.lineWidth = 3;
    trace();
    const [x, y] = replay.centre(goal);
    const half = Math.max(replay.header.cell_size_m * camera.scale * 0.42, 5);
    c.setLineDash([5, 3]);
    c.lineWidth = 2;
    c.strokeRect(camera.screenX(x) - half, camera.screenY(y) - half, 2 * half, 2 * half);
    c.setLineDash([]);
  }

  /** The latest scan, from where it was taken. */
  drawScan(c, t, robot, theme) {
    const { replay, camera } = this;
    const { frame, distances } = replay.scan(t, robot);
    if (!(replay.flags(frame, robot) & FLAG.alive)) return;
    const current = frame === t;
    const x = camera.screenX(current ? this.x[robot] : replay.x(frame, robot));
    const y = camera.screenY(current ? this.y[robot] : replay.y(frame, robot));
    const heading = current ? this.heading[robot] : replay.heading(frame, robot);
    const range = replay.header.lidar.range_m;
    const ends = distances.map((distance, k) => {
      const angle = heading + 2 * Math.PI * k / distances.length;
      return [x + Math.cos(angle) * distance * camera.scale, y - Math.sin(angle) * distance * camera.scale, distance < range * 0.999];
    });
    c.strokeStyle = c.fillStyle = theme.beam;
    c.lineWidth = 1;
    c.globalAlpha = 0.3;
    c.beginPath();
    for (const [ex, ey] of ends) {
      c.moveTo(x, y);
      c.lineTo(ex, ey);
    }
    c.stroke();
    c.globalAlpha = 1;
    c.beginPath();
    for (const [ex, ey, hit] of ends) if (hit) c.rect(ex - 2, ey - 2, 4, 4);
    c.fill();
  }

  /** Dotted lines from the robots whose messages it has. */
  drawHeard(c, t, robot, theme) {
    c.strokeStyle = theme.beam;
    c.lineWidth = 2;
    c.setLineDash([2, 4]);
    c.beginPath();
    for (const { robot: sender, age } of this.replay.messages.heard(t, robot)) {
      if (age === null || !this.shown[sender]) continue;
      c.moveTo(this.camera.screenX(this.x[sender]), this.camera.screenY(this.y[sender]));
      c.lineTo(this.camera.screenX(this.x[robot]), this.camera.screenY(this.y[robot]));
    }
    c.stroke();
    c.setLineDash([]);
  }

  drawBodies(c, robots, role, theme) {
    c.fillStyle = ROLE_COLOURS[role % ROLE_COLOURS.length];
    c.strokeStyle = theme.outline;
    c.lineWidth = 1.2;
    c.lineJoin = 'round';
    c.beginPath();
    for (const robot of robots) {
      const { x, y, radius, heading } = this.drawn(robot);
      addBody(c, this.replay.header.roles[role], role, x, y, radius, heading);
    }
    c.fill();
    c.stroke();
  }

  drawLoads(c, t, robots, theme) {
    c.fillStyle = theme.load;
    c.strokeStyle = theme['load-ink'];
    c.lineWidth = 1;
    c.beginPath();
    for (const robot of robots) {
      if (!(this.replay.flags(t, robot) & FLAG.loaded)) continue;
      const { x, y, radius, heading } = this.drawn(robot);
      const half = radius * 0.6;
      const rectangle = rectangleOf(this.replay.header.roles[this.replay.robots[robot].role]);
      if (rectangle) addTurned(c, rectangle, x, y, half, heading);
      else c.rect(x - half, y - half, 2 * half, 2 * half);
    }
    c.fill();
    c.stroke();
  }

  /** A bar across robots whose battery is empty. */
  drawEmpty(c, t, robots, theme) {
    if (!this.replay.someRunEmpty) return;
    c.strokeStyle = theme.alarm;
    c.lineCap = 'butt';
    c.lineWidth = Math.min(Math.max(this.camera.scale * 0.12, 1.5), 7);
    c.beginPath();
    for (const robot of robots) {
      if (this.replay.charge(t, robot) > 0) continue;
      const { x, y, radius } = this.drawn(robot);
      c.moveTo(x - radius, y + radius);
      c.lineTo(x + radius, y - radius);
    }
    c.stroke();
  }

  drawHeadings(c, robots, theme) {
    c.strokeStyle = theme.outline;
    c.lineCap = 'round';
    c.lineWidth = Math.min(Math.max(this.camera.scale * 0.08, 1.5), 5);
    c.beginPath();
    for (const robot of robots) {
      const { x, y, radius, heading } = this.drawn(robot);
      const front = radius * this.replay.robots[robot].front;
      const dx = Math.cos(heading) * front;
      const dy = -Math.sin(heading) * front;
      c.moveTo(x + dx * 0.75, y + dy * 0.75);
      c.lineTo(x + dx * 1.5, y + dy * 1.5);
    }
    c.stroke();
  }

  /** A dashed ring around robots whose last motion was refused. */
  drawRefused(c, t, robots, theme) {
    const small = SMALLEST_PX + 3 > this.camera.scale * this.replay.robots[0].radius;
    c.strokeStyle = theme.refused;
    c.lineWidth = small ? 1 : 2;
    c.setLineDash(small ? [2, 1.5] : [3, 3]);
    c.beginPath();
    for (const robot of robots) {
      if (!(this.replay.flags(t, robot) & FLAG.refused)) continue;
      const x = this.camera.screenX(this.x[robot]);
      const y = this.camera.screenY(this.y[robot]);
      const radius = this.radius(robot) * 1.2 + (small ? 0.8 : 2);
      c.moveTo(x + radius, y);
      c.arc(x, y, radius, 0, 2 * Math.PI);
    }
    c.stroke();
    c.setLineDash([]);
  }

  drawNumbers(c, t, robots, theme) {
    c.textAlign = 'center';
    c.textBaseline = 'middle';
    for (const robot of robots) {
      const radius = this.radius(robot) * this.replay.robots[robot].inner;
      if (radius < NUMBERS_FROM_PX) continue;
      const text = String(this.replay.robots[robot].slot);
      const size = radius * [0.95, 0.8, 0.6, 0.45][Math.min(text.length, 4) - 1]; // within the load's box
      c.font = `650 ${Math.min(Math.round(size), 30)}px system-ui, sans-serif`;
      c.fillStyle = this.replay.flags(t, robot) & FLAG.loaded ? theme['load-ink'] : '#ffffff';
      const y = this.camera.screenY(this.y[robot]) + radius * 0.05;
      c.fillText(text, this.camera.screenX(this.x[robot]), y);
    }
  }

  drawSelection(c, robot, theme) {
    const x = this.camera.screenX(this.x[robot]);
    const y = this.camera.screenY(this.y[robot]);
    const radius = this.radius(robot) * 1.25 + 4;
    for (const [colour, width] of [[theme.halo, 6], [theme.route, 3]]) {
      c.strokeStyle = colour;
      c.lineWidth = width;
      c.beginPath();
      c.arc(x, y, radius, 0, 2 * Math.PI);
      c.stroke();
    }
  }

  /** Signs where something went wrong in the last few steps, fading. */
  drawSigns(c, t, theme) {
    const { replay, camera } = this;
    const first = replay.eventStart[Math.max(t - SIGN_STEPS + 1, 0)];
    const end = replay.eventStart[t + 1];
    for (let event = first; event < end; event++) {
      const kind = replay.kinds[replay.arrays.event_kind[event]].name;
      if (!isAlarm(kind) || kind === 'despawn') continue; // a despawn is a collision's end, in the same place
      const step = replay.arrays.event_step[event];
      c.globalAlpha = 1 - (t - step) / SIGN_STEPS;
      for (const robot of replay.robotsOf(event)) {
        // Where it was before it left the floor, or came back somewhere else.
        const frame = step > 0 && (!(replay.flags(step, robot) & FLAG.alive) || replay.flags(step, robot) & FLAG.jumped) ? step - 1 : step;
        const x = camera.screenX(replay.x(frame, robot));
        const y = camera.screenY(replay.y(frame, robot));
        c.fillStyle = theme.halo;
        c.beginPath();
        c.arc(x, y, 11, 0, 2 * Math.PI);
        c.fill();
        drawSign(c, kind, x, y, 6, theme);
      }
    }
    c.globalAlpha = 1;
  }
}
