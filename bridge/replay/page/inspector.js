// What the followed robot is doing.

const LOW_CHARGE = 0.2;

class Inspector {
  constructor(replay, routes, parent, seek, close) {
    this.replay = replay;
    this.routes = routes;
    this.parent = parent;
    this.seek = seek;
    this.close = close;
    this.robot = null;
  }

  /** Show a robot; -1 for none. */
  select(robot) {
    this.robot = robot;
    this.parent.replaceChildren();
    if (robot < 0) {
      const hint = document.createElement('p');
      hint.className = 'hint';
      hint.textContent = 'Click a robot to follow it: its way, task, battery and what it senses.';
      this.parent.append(hint);
      return;
    }
    const title = document.createElement('h2');
    const close = document.createElement('button');
    close.type = 'button';
    close.textContent = 'Close';
    close.title = 'Follow no robot (Escape)';
    close.addEventListener('click', this.close);
    title.append(this.replay.robots[robot].name, close);
    this.list = document.createElement('dl');
    this.rows = new Map();
    this.lidar = null;
    this.parent.append(title, this.list);
    if (this.replay.header.lidar) this.addLidar();
    this.events = this.replay.eventsOf(robot);
    this.log = document.createElement('ul');
    this.log.className = 'log';
    this.parent.append(this.log);
    this.logged = '';
  }

  addLidar() {
    const box = document.createElement('div');
    box.id = 'lidar';
    this.lidar = document.createElement('canvas');
    this.lidarText = document.createElement('span');
    box.append(this.lidar, this.lidarText);
    this.parent.append(box);
  }

  row(name, label) {
    if (!this.rows.has(name)) {
      const term = document.createElement('dt');
      term.textContent = label;
      const value = document.createElement('dd');
      value.id = `robot-${name}`;
      this.list.append(term, value);
      this.rows.set(name, value);
    }
    return this.rows.get(name);
  }

  show(t, theme, ratio) {
    const { replay, robot } = this;
    if (robot < 0) return;
    const flags = replay.flags(t, robot);
    const alive = Boolean(flags & FLAG.alive);
    const goal = replay.goal(t, robot);
    this.row('role', 'Role').textContent = replay.header.roles[replay.robots[robot].role].name;
    this.row('task', 'Task').textContent = this.describeTask(t, flags, goal);
    this.row('target', 'Target').textContent = alive ? this.describeTarget(t, goal) : '-';
    this.row('way', 'Shortest way').textContent = alive ? this.describeWay(t, goal) : '-';
    this.row('place', 'Position').textContent = alive ? `x ${replay.x(t, robot).toFixed(2)} m, y ${replay.y(t, robot).toFixed(2)} m` : '-';
    if (replay.hasHeading) {
      const degrees = Math.round(replay.heading(t, robot) * 180 / Math.PI) % 360;
      this.row('heading', 'Heading').textContent = alive ? `${degrees}\u00b0` : '-';
    }
    if (replay.traffic.zones.length) {
      const limit = replay.traffic.limit(replay.cellAt(replay.x(t, robot), replay.y(t, robot)));
      this.row('limit', 'Speed limit').textContent = !alive ? '-' : limit === null ? 'none' : `${Number(limit.toPrecision(3))} m/s`;
    }
    this.showCharge(replay.charge(t, robot), alive);
    this.row('did', 'Last step').textContent = !alive || t === 0 ? '-' : this.describeStep(t, flags);
    this.showFields(t);
    if (replay.messages) this.showMessages(t, alive);
    this.showLog(t);
    if (this.lidar) this.showLidar(t, alive, theme, ratio);
  }

  get isPicker() { return this.replay.header.roles[this.replay.robots[this.robot].role].job === 'pick'; }

  describeTask(t, flags, goal) {
    const { replay, robot } = this;
    if (!(flags & FLAG.alive)) return 'off the floor';
    if (flags & FLAG.loaded) return 'brings a load to its delivery';
    if (flags & FLAG.task) return 'fetches a load';
    if (goal < 0) return 'none';
    const there = replay.cellAt(replay.x(t, robot), replay.y(t, robot)) === goal;
    if (replay.isCalled(t, robot)) return there ? 'called to a pick-up, and there' : 'called to a pick-up';
    if (replay.stations.get(goal)?.key === 'chargers') return there ? 'none: charges' : 'none: goes to a charger';
    return there ? 'none: parks' : 'none: goes to park';
  }

  /** What it did in the step before frame t. */
  describeStep(t, flags) {
    const { replay, robot } = this;
    if (flags & FLAG.refused) return 'blocked';
    if (flags & FLAG.jumped || !(replay.flags(t - 1, robot) & FLAG.alive)) return 'came back';
    const pause = replay.pause(t, robot);
    if (pause === PAUSE.served) return this.isPicker ? 'helped' : 'was served';
    if (pause === PAUSE.halted) return replay.charge(t, robot) <= 0 ? 'stood: battery empty' : 'halted: a delay or a protective stop';
    const moved = Math.hypot(replay.x(t, robot) - replay.x(t - 1, robot), replay.y(t, robot) - replay.y(t - 1, robot));
    if (moved > 0) return `moved ${moved.toFixed(2)} m`;
    if (replay.heading(t, robot) !== replay.heading(t - 1, robot)) return 'turned';
    return pause === PAUSE.drives ? 'was in a slow cell' : 'stood';
  }

  describeTarget(t, goal) {
    if (goal < 0) return 'none';
    const width = this.replay.header.width;
    const station = this.replay.stations.get(goal);
    const place = `row ${Math.floor(goal / width)}, column ${goal % width}`;
    return station ? `${station.label} (${station.letter}), ${place}` : place;
  }

  describeWay(t, goal) {
    if (goal < 0) return '-';
    const { replay, robot } = this;
    const cells = this.routes.path(replay.cellAt(replay.x(t, robot), replay.y(t, robot)), goal).length - 1;
    if (cells < 0) return 'none';
    return `${cells} ${cells === 1 ? 'cell' : 'cells'}, ${(cells * replay.header.cell_size_m).toFixed(1)} m`;
  }

  showCharge(charge, alive) {
    const cell = this.row('charge', 'Battery');
    if (!cell.firstChild) {
      const bar = document.createElement('span');
      bar.className = 'battery';
      bar.append(document.createElement('i'));
      cell.append(bar, document.createElement('span'));
    }
    const [bar, text] = cell.children;
    bar.classList.toggle('low', charge < LOW_CHARGE);
    bar.firstChild.style.width = `${alive ? charge * 100 : 0}%`;
    text.textContent = !alive ? '-' : `${(charge * 100).toFixed(1)} %${charge <= 0 ? ', empty' : charge < LOW_CHARGE ? ', low' : ''}`;
  }

  showFields(t) {
    this.replay.header.fields.forEach((field, number) => {
      const digits = Math.min(Math.max(Math.ceil(-Math.log10(field.resolution)), 0), 6);
      const texts = this.replay.field(number, t, this.robot).map((value) => {
        if (value === null) return '-';
        return field.choices[Math.round(value)] ?? value.toFixed(digits);
      });
      const known = texts.some((text) => text !== '-');
      this.row(`field-${number}`, field.label).textContent = known ? texts.join(', ') + (field.unit ? ` ${field.unit}` : '') : '-';
    });
  }

  /** What it said last, and what it has of the nearest robots in range, with its age. */
  showMessages(t, alive) {
    const { replay, robot } = this;
    this.row('sent', 'Message sent').textContent = alive ? replay.messages.said(t, robot) ?? 'none' : '-';
    const received = this.row('received', 'Received');
    if (!alive) {
      received.textContent = '-';
      return;
    }
    const heard = replay.messages.heard(t, robot);
    if (!heard.length) received.textContent = 'none: no robot in range';
    else received.replaceChildren(...heard.map(({ robot: sender, age, text }) => {
      const line = document.createElement('div');
      const name = replay.robots[sender].name;
      line.textContent = age === null ? `${name}: nothing` : `${name}: ${text}; ${Number((age * replay.header.step_s).toFixed(1))}\u00a0s\u00a0old`;
      return line;
    }));
    const { senders, shown } = replay.header.messages;
    if (senders < shown && heard.length === senders) received.append(`(nearest ${senders} of ${shown} kept)`);
  }

  /** How often what happened to it so far, and buttons to the last few. */
  showLog(t) {
    const { event_step: steps, event_kind: kinds } = this.replay.arrays;
    const past = this.events.filter((event) => steps[event] <= t);
    const key = String(past.length);
    if (key === this.logged) return;
    this.logged = key;
    const counts = new Map(this.replay.kinds.map((kind) => [kind.label, 0]));
    for (const event of past) {
      const { label } = this.replay.kinds[kinds[event]];
      counts.set(label, counts.get(label) + 1);
    }
    const times = (count, one, many) => `${count} ${count === 1 ? one : many} so far`;
    const [label, kind] = this.isPicker ? ['Helped with', 'helped'] : ['Delivered', 'delivery'];
    this.row('deliveries', label).textContent = times(counts.get(kind) ?? 0, 'load', 'loads');
    this.row('collisions', 'Collided').textContent = `in ${times(counts.get('collision') ?? 0, 'step', 'steps')}`;
    this.log.replaceChildren(...past.slice(-5).reverse().map((event) => {
      const item = document.createElement('li');
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = `${steps[event]}: ${this.replay.kinds[kinds[event]].label}`;
      button.title = 'Go to this step';
      button.addEventListener('click', () => this.seek(steps[event]));
      item.append(button);
      return item;
    }));
  }

  /** The scan in the body frame, straight ahead up. */
  showLidar(t, alive, theme, ratio) {
    const { beams, range_m: range } = this.replay.header.lidar;
    const size = 118;
    this.lidar.width = this.lidar.height = Math.round(size * ratio);
    const c = this.lidar.getContext('2d');
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    const middle = size / 2;
    const reach = middle - 3;
    c.strokeStyle = theme.edge;
    for (const share of [0.5, 1]) {
      c.beginPath();
      c.arc(middle, middle, reach * share, 0, 2 * Math.PI);
      c.stroke();
    }
    const { frame, distances } = this.replay.scan(t, this.robot);
    const known = alive && this.replay.flags(frame, this.robot) & FLAG.alive;
    const age = (t - frame) * this.replay.header.step_s;
    const nearest = known ? Math.min(...distances) : 0;
    const hits = distances.filter((distance) => distance < range * 0.999).length;
    this.lidarText.textContent = known
      ? `Lidar, ahead is up. ${beams} beams, ${range} m; ${hits} hit something, the nearest ${nearest.toFixed(2)} m away.${age ? ` ${Number(age.toFixed(1))} s old.` : ''}`
      : 'Lidar: no scan.';
    this.lidarText.id = 'robot-lidar';
    if (!known) return;
    c.beginPath();
    distances.forEach((distance, k) => {
      const angle = Math.PI / 2 + 2 * Math.PI * k / beams;
      c.lineTo(middle + Math.cos(angle) * distance / range * reach, middle - Math.sin(angle) * distance / range * reach);
    });
    c.closePath();
    c.fillStyle = theme['chart-fill'];
    c.fill();
    c.strokeStyle = theme.beam;
    c.lineWidth = 1.5;
    c.stroke();
    c.fillStyle = theme.ink;
    c.beginPath();
    c.moveTo(middle, middle - 6);
    c.lineTo(middle + 4, middle + 4);
    c.lineTo(middle - 4, middle + 4);
    c.fill();
  }
}
