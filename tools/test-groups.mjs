/**
 * Unit tests that share a process: a small test file spends most of its time on Node.js and the packages that it loads.
 * Tests of a group run one after the other. Files that change or measure their process have their own.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const ALONE = /^(test\/(dev|demos|environments\/code|platform|chaos)|gym\/test\/serve)\//;
/** More would keep one core busy at the end while the other is idle. */
const MOST_FILES = 10;

/** Paths of compiled test files, each a file of the given ones or a group of them. */
export function groupTests({ compiled, files }) {
  const groups = new Map();
  for (const file of files) {
    const room = file.split('/').slice(0, 2).join('/');
    const key = ALONE.test(file) ? file : room;
    groups.set(key, [...(groups.get(key) ?? []), file.replace(/\.ts$/, '.js')]);
  }
  mkdirSync(path.join(compiled, 'groups'), { recursive: true });
  return [...groups].flatMap(([room, members]) => {
    const count = Math.ceil(members.length / MOST_FILES);
    return Array.from({ length: count }, (_, k) => {
      const part = members.filter((_, i) => i % count === k);
      if (part.length === 1) return path.join(compiled, part[0]);
      const group = path.join(compiled, 'groups', `${room.replaceAll('/', '-')}-${k}.test.js`);
      writeFileSync(group, part.map((file) => `import '../${file}';\n`).join(''));
      return group;
    });
  });
}
