/**
 * What runs in which process, and in which order. A small test file spends most of its time on Node.js and the packages
 * that it loads, so those of a room share a process, one after the other. Files that change or measure their process,
 * start servers, or take long have their own. The longest start first, so that no core is idle at the end.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const ALONE =
  /^((gym\/)?test\/(e2e|interop|long)|test\/(dev|demos|environments\/code|platform|chaos)|gym\/test\/serve)\//;
const MOST_FILES = 10;
/** Seconds; a longer file would hold up the others of its group. */
const LONG = 8;

/** Paths of compiled test files, each a file of the given ones or a group of them. */
export function groupTests({ compiled, files, times }) {
  const secondsOf = (file) => times.get(file) ?? (/\/(e2e|long)\//.test(file) ? 60 : 2);
  const groups = new Map();
  for (const file of files) {
    const room = file.split('/').slice(0, 2).join('/');
    const key = ALONE.test(file) || secondsOf(file) > LONG ? file : room;
    groups.set(key, [...(groups.get(key) ?? []), file]);
  }
  const parts = [...groups].flatMap(([room, members]) => {
    const count = Math.ceil(members.length / MOST_FILES);
    return Array.from({ length: count }, (_, k) => {
      const part = members.filter((_, i) => i % count === k);
      const seconds = part.reduce((sum, file) => sum + secondsOf(file), 0);
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
