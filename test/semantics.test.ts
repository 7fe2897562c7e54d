/**
 * Checks that tests hold what pages promise: each numbered invariant of ARCHITECTURE.md clause by clause, what
 * docs/failures.md says of processes that die sentence by sentence, each row of its table and of README.md's, each feature
 * of docs/nemo.md and gym/UPSTREAM.md, and what keeps wrong data out of training. It fails for a promise without a test,
 * and for a test that was deleted or renamed.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import { format, resolveConfig } from 'prettier';
import { PROJECT_ROOT } from '../src/platform/project-root.js';
import { DEATHS } from './deaths.js';
import { codeIn } from './docs/checks/page.js';
import type { Features } from './nemo-features.js';
import { NEMO_FEATURES } from './nemo-features.js';
import { GYM_FEATURES } from './gym-features.js';
import { NEMO_NAMES } from './nemo-names.js';
import { FAILURES, INVARIANTS, POISONS } from './promises.js';
import { README_FAILURES } from './readme-failures.js';

const read = (file: string): string => readFileSync(path.join(PROJECT_ROOT, file), 'utf8');
const ARCHITECTURE = read('ARCHITECTURE.md');
const FAILURES_PAGE = 'docs/failures.md';

/** What stands under a heading of a page. */
const sectionOf = (title: string, page: string): string =>
  new RegExp(`^## ${title}\\n(.*?)(?=^## |(?![^]))`, 'ms').exec(page)?.[1] ?? '';

/**
 * The names of a file's tests, and of groups of them, as they are written: those of loops with their `${…}`, or the
 * expression of a name.
 */
function testsIn(file: string): string[] {
  if (!existsSync(path.join(PROJECT_ROOT, file))) return [];
  if (file.endsWith('.py'))
    return [...read(file).matchAll(/\bdef (\w+)\(/g)].map(([, name = '']) => name);
  const calls = read(file).matchAll(
    /\b(?:test|describe)\(\s*(?:'((?:[^'\\]|\\.)*)'|"([^"]*)"|`([^`]*)`|([\w.]+),)/g,
  );
  return [...calls].map(
    ([, single, double, template, name]) => single ?? double ?? template ?? name ?? '',
  );
}

function checkHeld(held: string): void {
  const [file = '', name = ''] = held.split(' › ');
  assert.ok(testsIn(file).includes(name), `${file} has no test called ${JSON.stringify(name)}`);
}

describe('an invariant of ARCHITECTURE is held, clause by clause', () => {
  const listed = /^(\d+)\. (.+)$/gm;
  const written = [...sectionOf('Invariants', ARCHITECTURE).matchAll(listed)].map(
    ([, number, text]) => ({
      number: Number(number),
      text: text ?? '',
    }),
  );

  test('and each of them has a number and an entry here', () => {
    assert.deepEqual(
      Object.keys(INVARIANTS).map(Number),
      written.map(({ number }) => number),
    );
    assert.ok(written.length > 0);
  });

  for (const { number, text } of written) {
    test(`${number}: ${text}`, () => {
      const clauses = INVARIANTS[number] ?? {};
      const left = Object.keys(clauses).reduce((rest, clause) => {
        assert.ok(rest.includes(clause), `ARCHITECTURE no longer says ${JSON.stringify(clause)}`);
        return rest.replace(clause, '');
      }, text);
      assert.equal(left.replace(/[,;:. ]|\band\b|\bor\b/g, ''), '', 'a clause without a test');
      for (const tests of Object.values(clauses)) {
        assert.ok(tests.length > 0);
        tests.forEach(checkHeld);
      }
    });
  }
});

/** A sentence, without the file that does it. */
function sentenceOf(item: string): string {
  const [, sentence] = /^- (.+) \(\[`[^`]+`\]\(\.\.\/src\/[^)]+\)\)\.$/.exec(item) ?? [];
  assert.ok(sentence, `expected "- A sentence ([\`file\`](../src/…)).", got ${item}`);
  return `${sentence}.`;
}

describe('what docs/failures.md says of a process that dies is held, sentence by sentence', () => {
  const victims = sectionOf('When a process dies', read(FAILURES_PAGE)).split(/^### /m).slice(1);
  const said = Object.fromEntries(
    victims.map((text) => {
      const [victim = '', ...lines] = text.split('\n');
      const items = lines.filter((line) => line.startsWith('- '));
      return [victim, items.map(sentenceOf)];
    }),
  );

  test('and each victim and sentence there has an entry here, in its order', () => {
    const held = Object.entries(DEATHS).map(([victim, held]) => [victim, Object.keys(held)]);
    assert.deepEqual(Object.fromEntries(held), said);
    assert.deepEqual(Object.keys(DEATHS), Object.keys(said));
    assert.ok(Object.keys(said).length >= 9);
  });

  for (const [victim, sentences] of Object.entries(DEATHS)) {
    for (const [sentence, tests] of Object.entries(sentences)) {
      test(`${victim}: ${sentence}`, () => {
        assert.match(sentence, /^[A-Z][^.]*\.$/, 'one sentence');
        assert.ok(tests.length > 0);
        tests.forEach(checkHeld);
      });
    }
  }
});

for (const [page, failures] of [
  [FAILURES_PAGE, FAILURES],
  ['README.md', README_FAILURES],
] as const)
  describe(`what fails is answered as ${page} says`, () => {
    const [, table = ''] =
      /^## When something (?:fails|dies)\n(?:(?!#|\|).*\n)*((?:\|.*\n)+)/m.exec(read(page)) ?? [];
    const rows = table
      .split('\n')
      .slice(2)
      .flatMap((row) => row.split(/ +\| +/)[0]?.slice(2) || []);

    test('and each row of its table has an entry here', () => {
      assert.deepEqual(Object.keys(failures), rows);
      assert.ok(rows.length > 0);
    });

    for (const [what, tests] of Object.entries(failures)) {
      test(what, () => {
        assert.ok(tests.length > 0);
        tests.forEach(checkHeld);
      });
    }
  });

describe('what would poison training is kept out', () => {
  for (const [claim, tests] of Object.entries(POISONS))
    test(claim, () => {
      assert.ok(tests.length > 0);
      tests.forEach(checkHeld);
    });
});

const rowsOf = (tables: Features) => Object.values(tables).flatMap((rows) => Object.entries(rows));

for (const { page, upstream, tables } of [
  { page: 'docs/nemo.md', upstream: 'NeMo RL', tables: NEMO_FEATURES },
  { page: 'gym/UPSTREAM.md', upstream: 'NeMo Gym', tables: GYM_FEATURES },
])
  describe(`what ${page} says of ${upstream}`, () => {
    test('is those tables', async () => {
      const file = path.join(PROJECT_ROOT, page);
      const style = await resolveConfig(file);
      const written: string[] = [];
      const text = read(page).replaceAll(
        /<!-- (\S+) -->\n.*?<!-- \/\1 -->/gs,
        (_, name: string) => {
          written.push(name);
          const rows = Object.entries(tables[name] ?? {});
          const lines = rows.map(([what, { here }]) => `| ${what} | ${here} |`);
          const table = [`| of ${upstream} | here |`, '| --- | --- |', ...lines].join('\n');
          return `<!-- ${name} -->\n\n${table}\n\n<!-- /${name} -->`;
        },
      );
      const formatted = await format(text, { ...style, filepath: file });
      if (process.env['UPDATE_SCHEMAS'] === '1') writeFileSync(file, formatted);
      assert.equal(read(page), formatted);
      assert.deepEqual(written, Object.keys(tables));
    });

    for (const [what, { tests }] of rowsOf(tables))
      test(what, () => {
        assert.ok(tests.length > 0);
        tests.forEach(checkHeld);
      });
  });

for (const [document, names] of Object.entries(NEMO_NAMES))
  test(`each name of ${document} has a row there`, () => {
    const rows = [...rowsOf(NEMO_FEATURES), ...rowsOf(GYM_FEATURES)];
    const said = new Set(rows.flatMap(([what, { here }]) => codeIn(`${what} ${here}`)));
    assert.deepEqual(
      names.filter((name) => !said.has(name)),
      [],
    );
  });

describe('workflow code', () => {
  const folder = 'src/workflows';
  const files = readdirSync(path.join(PROJECT_ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => path.join(folder, name));

  test('runs the SDK, `ms`, what is workflow-safe, plain text and itself; all else is types', () => {
    const allowed =
      /^(@temporalio\/workflow(\/lib\/global-attributes\.js)?|ms|src\/workflows\/.*|src\/model\/workflow-safe\/.*|src\/platform\/(plain|json\/kept|json\/depth)\.js)$/;
    for (const file of files) {
      const imports = read(file).matchAll(/^(?:import|export)\s(?!type\b)[^;]*?from '([^']+)'/gm);
      for (const [, from = ''] of imports) {
        const source = from.startsWith('.') ? path.join(path.dirname(file), from) : from;
        assert.match(source, allowed, `${file} runs ${source}`);
      }
    }
    assert.ok(files.length > 10);
  });
});

describe('recorded histories', () => {
  const histories = readdirSync(path.join(PROJECT_ROOT, 'test/histories'));

  interface Scheduled {
    activityType: { name: string };
    startToCloseTimeout: string;
    scheduleToCloseTimeout: string;
    heartbeatTimeout: string;
  }

  test('have a deadline of each activity, and a heartbeat that ends a dead attempt sooner', () => {
    const activities = histories.flatMap((name) => {
      const { events } = JSON.parse(read(`test/histories/${name}`)) as {
        events: { activityTaskScheduledEventAttributes?: Scheduled }[];
      };
      return events.flatMap((event) => event.activityTaskScheduledEventAttributes ?? []);
    });
    assert.ok(activities.length > 0);
    for (const { activityType, heartbeatTimeout, ...timeouts } of activities) {
      const { startToCloseTimeout, scheduleToCloseTimeout } = timeouts;
      const deadlines = [startToCloseTimeout, scheduleToCloseTimeout]
        .map(parseFloat)
        .filter((s) => s > 0);
      assert.ok(deadlines.length > 0, `${activityType.name} has no deadline`);
      assert.ok(parseFloat(heartbeatTimeout) > 0, `${activityType.name} has no heartbeat`);
    }
  });
});
