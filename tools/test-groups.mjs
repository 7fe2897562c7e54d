/**
 * Which tests belong together: the tiers, the ninth of a tier that a change plays, and what runs in which process. A
 * small test file spends most of its time on Node.js and the packages that it loads, so those of a room share a process,
 * one after the other. Files that change or measure their process, or take long, have their own. The longest start first,
 * so that no core is idle at the end.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { filesBelow, fingerprint } from './fingerprint.mjs';

/** They set what a process has (variables, a umask, a title), hook every test of it, or measure it. */
const ALONE = new RegExp(
  [
    /^(gym\/)?test\/(e2e|interop|long|lab\/demos)\//,
    /^gym\/test\/serve\/(prepare|prepare-data|servers)\./,
    /^test\/dev\/(dev-server|engine|folder-claim|tend|simulator\/(faults|pause|serving))\./,
    /^test\/environments\/code\/(escapes|goldens|sandbox\/folders|watch\/watch)\./,
    /^test\/platform\/(s3-credentials|json\/depth)\./,
  ]
    .map(({ source }) => source)
    .join('|'),
);
/** Seconds of a group; a file that takes half of that holds up no others. */
const GROUP_S = 24;
/** What the committed times leave out. */
const QUICK_S = 1;

const PARTS = 9;

/** `unit`, or the folder of tests that start a whole stack: `e2e`, `long`, `interop`. */
export const tierOf = (file) => /^(?:gym\/)?test\/(e2e|long|interop)\//.exec(file)?.[1] ?? 'unit';

/**
 * One of nine parts of about the same length. What the tree holds decides which, so that a change is tried with the
 * same part again, and changes together try all of them.
 */
export function ninthOf({ root, files, times }) {
  const tree = [
    'src',
    'viewer',
    'dev',
    'simulator',
    'tools/temporal-cli',
    'gym',
    'lab',
    'python',
    'test',
  ].flatMap((folder) =>
    filesBelow(path.join(root, folder))
      .filter((file) => /\.(ts|py|json)$/.test(file))
      .map((file) => `${folder}/${file}`),
  );
  const part = Number.parseInt(fingerprint(root, tree).slice(0, 8), 16) % PARTS;
  const parts = Array.from({ length: PARTS }, () => ({ seconds: 0, files: [] }));
  const secondsOf = secondsFrom(times);
  for (const file of [...files].sort((a, b) => secondsOf(b) - secondsOf(a))) {
    const shortest = parts.reduce((a, b) => (b.seconds < a.seconds ? b : a));
    shortest.files.push(file);
    shortest.seconds += secondsOf(file);
  }
  console.log(`part ${part + 1} of ${PARTS}: ${parts[part].files.join(', ')}`);
  return parts[part].files;
}

/** Paths of compiled test files, each a file of the given ones or a group of them. */
export function groupTests({ compiled, files, times }) {
  const secondsOf = secondsFrom(times);
  const byRoom = new Map();
  for (const file of files) {
    const room = file.split('/').slice(0, 2).join('/');
    const key = ALONE.test(file) || secondsOf(file) > GROUP_S / 2 ? file : room;
    byRoom.set(key, [...(byRoom.get(key) ?? []), file]);
  }
  const parts = [...byRoom].flatMap(([room, members]) => {
    const sum = members.reduce((seconds, file) => seconds + secondsOf(file), 0);
    const count = Math.min(members.length, Math.ceil(sum / GROUP_S));
    return Array.from({ length: count }, (_, k) => {
      const part = members.filter((_, i) => i % count === k);
      const seconds = part.reduce((total, file) => total + secondsOf(file), 0);
      return { name: `${room.replaceAll('/', '-')}-${k}`, part, seconds };
    });
  });
  parts.sort((a, b) => b.seconds - a.seconds);
  mkdirSync(path.join(compiled, 'groups'), { recursive: true });
  return parts.map(({ name, part }) => {
    const modules = part.map((file) => file.replace(/\.ts$/, '.js'));
    if (modules.length === 1) return path.join(compiled, modules[0]);
    const group = path.join(compiled, 'groups', `${name}.test.js`);
    writeFileSync(group, modules.map((file) => `import '../${file}';\n`).join(''));
    return group;
  });
}

const secondsFrom = (times) => (file) =>
  times.get(file) ?? (tierOf(file) === 'unit' ? QUICK_S : 60);
