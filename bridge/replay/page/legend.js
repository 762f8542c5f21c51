// What the signs mean; only those that this replay can show.

function buildLegend(replay, parent, theme, ratio) {
  const middle = 11;
  const entries = [];
  replay.header.roles.forEach((role, index) => entries.push([`${role.name} (${role.count})`, (c) => {
    c.fillStyle = ROLE_COLOURS[index % ROLE_COLOURS.length];
    c.strokeStyle = theme.outline;
    c.lineWidth = 1.2;
    c.beginPath();
    addBody(c, role, index, middle, middle, role.length_m ? 9 : 7, 0);
    c.fill();
    c.stroke();
  }]));
  entries.push(['carries a load', (c) => square(c, theme.load, 6, theme['load-ink'])]);
  if (replay.someRunEmpty) entries.push(['battery empty', (c) => {
    c.strokeStyle = theme.alarm;
    c.lineWidth = 3;
    c.beginPath();
    c.moveTo(4, 18);
    c.lineTo(18, 4);
    c.stroke();
  }]);
  entries.push(['move was blocked', (c) => ring(c, theme.refused, [3, 3])]);
  entries.push(['followed robot', (c) => ring(c, theme.route, [])]);
  entries.push(['shortest way', (c) => {
    c.strokeStyle = theme.route;
    c.lineWidth = 3;
    c.beginPath();
    c.moveTo(2, 16);
    c.lineTo(11, 16);
    c.lineTo(11, 6);
    c.lineTo(20, 6);
    c.stroke();
  }]);
  if (replay.header.lidar) entries.push(['lidar hit', (c) => square(c, theme.beam, 3)]);
  if (replay.messages) entries.push(['has its message', (c) => {
    c.strokeStyle = theme.beam;
    c.lineWidth = 2;
    c.setLineDash([2, 4]);
    c.beginPath();
    c.moveTo(2, middle);
    c.lineTo(20, middle);
    c.stroke();
  }]);
  entries.push(['rack or wall', (c) => square(c, theme.rack, 9)]);
  const { traffic } = replay;
  if (traffic.zones.length) entries.push(['speed limit in m/s', (c) => {
    square(c, theme.zone, 9);
    c.strokeStyle = theme['zone-edge'];
    c.beginPath();
    addHatch(c, middle - 9, middle - 9, middle + 9, middle + 9);
    c.stroke();
  }]);
  if (traffic.oneWay.length) entries.push(['one way', (c) => {
    c.fillStyle = theme.ink;
    c.beginPath();
    addArrow(c, middle, middle, 1, 0, 5);
    c.fill();
  }]);
  if (traffic.closed.length) entries.push(['closed border', (c) => {
    c.fillStyle = theme.ink;
    c.fillRect(middle - 9, middle - 1.5, 18, 3);
  }]);
  for (const [key, letter, label] of STATIONS) {
    if (!replay.arrays[key].length) continue;
    entries.push([key === 'pickups' || key === 'deliveries' ? `${label} station` : label, (c) => {
      square(c, theme[STATION_COLOURS[key]], 9);
      c.fillStyle = theme['station-ink'];
      c.font = '600 11px system-ui, sans-serif';
      c.textAlign = 'center';
      c.textBaseline = 'middle';
      c.fillText(letter, middle, middle + 0.5);
    }]);
  }
  for (const kind of replay.kinds) {
    if (UNLISTED.has(kind.name) || (!kind.events.length && kind.name !== 'collision')) continue;
    entries.push([`event: ${kind.label}`, (c) => drawSign(c, kind.name, middle, middle, 6, theme)]);
  }
  if (replay.header.warm_up_steps) entries.push(['warm-up', (c) => square(c, theme.grid, 9, theme.edge)]);
  parent.replaceChildren(...entries.map(([label, draw]) => {
    const row = document.createElement('div');
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = Math.round(22 * ratio);
    const c = canvas.getContext('2d');
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw(c);
    row.append(canvas, label);
    return row;
  }));

  function square(c, colour, half, edge) {
    c.fillStyle = colour;
    c.fillRect(middle - half, middle - half, 2 * half, 2 * half);
    if (!edge) return;
    c.strokeStyle = edge;
    c.strokeRect(middle - half, middle - half, 2 * half, 2 * half);
  }

  function ring(c, colour, dash) {
    c.strokeStyle = colour;
    c.lineWidth = 2.5;
    c.setLineDash(dash);
    c.beginPath();
    c.arc(middle, middle, 8, 0, 2 * Math.PI);
    c.stroke();
  }
}

const KEYS = [
  ['Space', 'play or pause'], ['\u2190 \u2192', 'one step back or on; with Shift ten'], ['Home End', 'start or end'],
  ['[ ]', 'previous or next collision, despawn or deadlock'], [', .', 'slower or faster'], ['+ \u2212 0', 'zoom in, zoom out, whole floor'],
  ['F', 'keep the followed robot in the middle'], ['N P', 'follow the next or previous robot'], ['Esc', 'follow no robot'],
  ['L', 'lines from robots to their targets'], ['T', 'light or dark'], ['?', 'this list'],
];

function buildKeys(dialog) {
  const table = document.createElement('table');
  for (const [keys, meaning] of KEYS) {
    const row = table.insertRow();
    const cell = row.insertCell();
    for (const key of keys.split(' ')) {
      const element = document.createElement('kbd');
      element.textContent = key;
      cell.append(element, ' ');
    }
    row.insertCell().textContent = meaning;
  }
  const close = document.createElement('button');
  close.type = 'button';
  close.textContent = 'Close';
  close.addEventListener('click', () => dialog.close());
  dialog.append(table, close);
}
