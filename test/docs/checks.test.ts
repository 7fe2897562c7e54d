/** The checks of pages find what is wrong, and leave what is right. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { z } from 'zod';
import { blockProblems } from './checks/blocks.js';
import { commandProblems } from './checks/commands.js';
import { figureProblems } from './checks/figures.js';
import { inputProblems } from './checks/inputs.js';
import { citationProblems, linkProblems, mentionProblems, pathProblems } from './checks/links.js';
import { nameProblems, variableProblems, variablesRead } from './checks/names.js';
import type { Page, Problem } from './checks/page.js';
import { asLines, pageOf } from './checks/page.js';
import type { Repository } from './checks/repository.js';
import { defaultProblems, tableProblems } from './checks/tables.js';

const sources = new Map([
  [
    'src/run.ts',
    "process.env['OWN_VARIABLE']; const max_things = 1; class BigFault {} // done.jsonl",
  ],
  ['bench/main.ts', 'npm run bench -- [--quick]'],
  ['python/serve/__main__.py', 'add_argument("--port")'],
]);
const paths = [
  'src',
  'src/run.ts',
  'bench',
  'bench/main.ts',
  'docs',
  'docs/a.md',
  'docs/b.md',
  'python/serve',
];
const repository: Repository = {
  root: '/nowhere',
  paths: new Set(paths),
  scripts: { bench: 'tsc && node .lab/bench/main.js', start: 'node dist/src/cli/main.js up' },
  sources,
  words: new Set(['max_things', 'BigFault', 'progress', 'set_limits']),
  options: new Set(['--port', '--exit']),
};
const commands = {
  repository,
  usages: { up: 'temporal-rollout up [--exit]', policy: 'temporal-rollout policy status [--all]' },
  workflows: new Set(['rolloutBatch']),
  foreign: new Set(['--foreign']),
};

/** What one check finds in a text, without page and line. */
function found(text: string, check: (page: Page) => Problem[]): string[] {
  return check(pageOf('docs/a.md', text)).map(({ what }) => what);
}

/** Texts that must be found wrong, each beside one that must not. */
function finds(check: (page: Page) => Problem[], cases: [wrong: string, right: string][]): void {
  for (const [wrong, right] of cases) {
    test(wrong.replaceAll('\n', ' ⏎ '), () => {
      assert.equal(found(wrong, check).length, 1, found(wrong, check).join('; '));
      assert.deepEqual(found(right, check), []);
    });
  }
}

describe('a link is wrong', () => {
  const other = pageOf('docs/b.md', '# One `thing`, or two\n\n```\n# no heading\n```\n');
  const pages = new Map([['docs/b.md', other]]);
  const check = (page: Page) =>
    linkProblems(page, { repository, pages: new Map([...pages, ['docs/a.md', page]]) });
  finds(check, [
    ['[x](c.md)', '[x](b.md) and [y](https://example.com/c.md)'],
    ['[x](../src/gone.ts)', '[x](../src/run.ts) and [y](../src)'],
    ['[x](b.md#no-heading)', '[x](b.md#one-thing-or-two)'],
    ['# A\n\n[x](#b)', '# A\n\n[x](#a)'],
    ['# A\n\n[x](#a-1)', '# A\n\n# A\n\n[x](#a-1)'],
    ['![x](gone.png)', '`[x](gone.md)`'],
  ]);
});

test('a page or a heading that a program names and nobody wrote is found', () => {
  const text =
    'see docs/b.md#none, docs/b.md#one,\nc.md (docs/a.md), ../docs/x.md and https://a.b/d.md';
  const other = pageOf('docs/b.md', '# One\n');
  const found = mentionProblems(
    { ...repository, sources: new Map([['src/run.ts', text]]) },
    new Map([['docs/b.md', other]]),
  );
  assert.deepEqual(asLines(found), [
    'src/run.ts:1: docs/b.md#none: no heading for #none',
    'src/run.ts:2: c.md: no file c.md',
  ]);
});

describe('a citation is wrong', () => {
  finds(citationProblems, [
    ['It hangs (#3612).', 'It hangs (owner/name#3612).'],
    [
      '[#1](https://example.com/2)',
      '[#1](https://example.com/1), `#1`, [name#1](https://example.com/1)',
    ],
  ]);
});

describe('a path in code font is wrong', () => {
  const check = (page: Page) => pathProblems(page, { repository, foreign: new Set(['theirs.py']) });
  finds(check, [
    ['`src/gone.ts`', '`src/run.ts`, `run.ts`, `docs/`'],
    ['`docs/gone`', '`docs`, `elsewhere/gone`'],
    ['`gone.ts`', '`theirs.py`'],
    ['`src/*.py`', '`src/*.ts`, `<room>/run.ts`'],
    ['`gone.jsonl`', '`done.jsonl`, `<batch>/done.jsonl`'],
  ]);
});

describe('a command is wrong', () => {
  finds(
    (page) => commandProblems(page, commands),
    [
      ['`npm run gone`', '`npm run bench`'],
      ['`npm gone`', '`npm start`, `npm ci`'],
      ['`npm run bench -- --slow`', '`npm run bench -- --quick`'],
      ['`npm start -- --slow`', '`npm start -- --exit`'],
      ['`temporal-rollout gone`', '`temporal-rollout up`, `temporal-rollout`'],
      ['`temporal-rollout up --slow`', '`temporal-rollout up --exit --config FILE --help`'],
      ['`temporal-rollout policy gone`', '`temporal-rollout policy status --all`'],
      [
        '```\nA=1 temporal-rollout up && temporal-rollout gone # x\n```',
        '```\ntemporal-rollout up # --slow\n```',
      ],
      ['```\nnpm run bench -- \\\n  --slow\n```', '```text\ntemporal-rollout gone\n```'],
      ['`node dist/src/gone.js`', '`node dist/src/run.js`'],
      ['`node --import tsx bench/gone.ts`', '`node --import tsx bench/main.ts --quick`'],
      ['`python -m gone`', '`python -m serve thing --port 1`'],
      ['`python -m serve thing --slow 1`', '`python3 -m serve`'],
      ['`temporal workflow start --type gone`', '`temporal workflow start --type rolloutBatch`'],
      [
        '`temporal workflow update execute --name gone`',
        '`temporal workflow update execute --name set_limits`',
      ],
      ['`temporal workflow query --type gone`', '`temporal workflow query --type progress`'],
      ['`--slow N`', '`--port N`, `--foreign`'],
    ],
  );
});

describe('a name in code font is wrong', () => {
  const check = (page: Page) =>
    nameProblems(page, { repository, foreign: new Set(['their_name']) });
  finds(check, [
    ['`min_things`', '`max_things`, `their_name`, min_things'],
    ['`{"min_things": 1}`', '`{"max_things": 1}`'],
    ['`up.min_things`', '`up.max_things`'],
    ['`SmallFault`', '`BigFault`, `http://example.com/min_things`'],
  ]);
});

describe('a variable is wrong', () => {
  const check = (page: Page) =>
    variableProblems(page, { repository, foreign: new Set(['THEIR_VARIABLE']) });
  finds(check, [
    ['`NO_VARIABLE=1 npm test`', '`OWN_VARIABLE=1 npm test`, `THEIR_VARIABLE`'],
    ['```\nexport NO_VARIABLE=1\n```', '```\napi_key_env: A_KEY\n```\n\n`A_KEY`'],
  ]);
});

describe('a measured figure is wrong', () => {
  const named = pageOf('docs/b.md', '# Bench\n\n`npm run bench` measures.\n');
  const silent = pageOf('docs/c.md', '# Words\n');
  const pages = new Map([
    ['docs/b.md', named],
    ['docs/c.md', silent],
  ]);
  finds(
    (page) => figureProblems(page, pages),
    [
      ['It took 3 ms.', 'It took 3 ms with `npm run bench`.'],
      ['A median of 3 s.', 'A limit of 3 s.'],
      ['It took 3 ms ([measured](c.md)).', 'It took 3 ms ([measured](b.md#bench)).'],
      [
        '## A\n\n`npm run bench`\n\n## B\n\nIt took 3 ms.',
        '## A\n\n```\nnpm run bench\n```\n\nIt took 3 ms.',
      ],
    ],
  );
});

describe('a table of settings is wrong', () => {
  const table = { heading: 'Settings', names: ['one', 'two'] };
  const text = (rows: string) => `# Settings\n\n| field | meaning |\n| - | - |\n${rows}\n`;
  finds(
    (page) => tableProblems(page, table),
    [
      [text('| `one` | |\n| `two`, `three` | |'), text('| `one` | |\n| `two` | not `three` |')],
      [text('| `one` | |'), text('| `one` | beside `two` |')],
    ],
  );
});

describe('a default is wrong', () => {
  const schema = z.strictObject({
    needed: z.int(),
    text: z.string().default('1h'),
    none: z.int().nullable().default(null),
    part: z.strictObject({ n: z.int().default(3) }).prefault({}),
  });
  const text = (rows: string) => `# Settings\n\n| field | default |\n| - | - |\n${rows}\n`;
  finds(
    (page) => defaultProblems(page, { heading: 'Settings', schema }),
    [
      [text('| `needed` | 1 |'), text('| `needed` | required |')],
      [text('| `text` | `2h` |'), text('| `text` | `1h` |')],
      [text('| `text`, `none` | `1h`, 0 |'), text('| `text`, `none` | `1h`, null |')],
      [text('| `part` | `{"n": 4}` |'), text('| `part` | `{"n": 3}` |\n| `part` | `{}` |')],
    ],
  );
});

test('the variables that programs read are found, those of tests are not', () => {
  const read = new Map([
    ...sources,
    ['src/b.py', 'os.environ.get("OTHER")'],
    ['src/test/c.ts', "env['NOT_THIS']"],
  ]);
  assert.deepEqual(variablesRead({ ...repository, sources: read }, ['src/']), [
    'OWN_VARIABLE',
    'OTHER',
  ]);
});

describe('an input is wrong', () => {
  finds(inputProblems, [
    ['```yaml\nworker: { memry: 1GiB }\n```', '```yaml\nworker: { memory: 1GiB }\n```'],
    [
      '```yaml\na: { kind: htp, url: http://127.0.0.1:1 }\n```',
      '```yaml\na: { kind: http, url: http://127.0.0.1:1 }\n```',
    ],
    [
      '```\ntemporal workflow start --type rolloutBatch --input \'{"samples": {"file": "a"}}\'\n```',
      '```\ntemporal workflow start --type rolloutBatch --input \'{"samples": …}\'\n```',
    ],
    [
      '```python\nrequest = {"samples": {"path": "a"}, "repeats": 8}\n```',
      '```python\nrequest = {"samples": {"path": "a"}, "num_repeats": 8}\n```',
    ],
    [
      '```text\n{"task_name": "a", "message_log": [{"role": "user"}]}\n```',
      '```text\n{"task_name": "a", "message_log": [{"role": "user", "content": "x"}]}\n```',
    ],
  ]);
});

describe('a block of code is wrong', () => {
  const runs = [{ test: 'a.test.ts', page: 'docs/a.md', has: 'run me' }];
  const shown = [{ page: 'docs/a.md', has: 'seen once', why: 'output' }];
  const heredoc = (task: string) =>
    `\`\`\`sh\ncat > a.jsonl <<'END'\n{"${task}": "a", "message_log": []}\nEND\n\`\`\``;
  finds(
    (page) => blockProblems(page, { runs, shown }),
    [
      ['```python\nleft = 1\n```', '```python\nrun = "run me"\n```'],
      ['```text\nseen twice\n```', '```text\nseen once\n```'],
      ['```\nnpm start && frobnicate\n```', '```\nnpm start && cd a # frobnicate\n```'],
      ['```toml\na = 1\n```', '```yaml\nworker: { memory: 1GiB }\n```'],
      [heredoc('task'), heredoc('task_name')],
    ],
  );
});

test('a problem is said with page and line', () => {
  const check = commandProblems(pageOf('docs/a.md', 'x\n\n`npm run gone`'), commands);
  assert.deepEqual(asLines(check), ['docs/a.md:3: npm run gone: no script "gone" in package.json']);
});
