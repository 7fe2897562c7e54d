import assert from 'node:assert/strict';
import { mkdir, readdir, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { readSamples } from '../../src/activities/plan/read-samples.js';
import type { Dependencies } from '../../src/activities/dependencies.js';
import { createEnvironmentFactory } from '../../src/environments/factory.js';
import type { ExactEnvironment } from '../../src/environments/environment.js';
import { EnvironmentSettings } from '../../src/environments/registry.js';
import { Fault } from '../../src/model/faults.js';
import { activityBench } from '../fakes/activity-bench.js';
import { faultOf, requestOf, sampleOf, temporaryFolder } from '../fakes/temporary-store.js';
import { eventually } from '../../lab/bed/waiting.js';

interface Inputs {
  directory: string;
  read: (samples: unknown, limit?: number) => Promise<string[]>;
  /** Reads a file of this text. */
  readText: (text: string, limit?: number) => Promise<string[]>;
}

async function inputs(t: TestContext, sample_bytes?: number): Promise<Inputs> {
  const outer = await temporaryFolder(t);
  const directory = path.join(outer, 'inputs');
  await mkdir(directory);
  await writeFile(path.join(outer, 'outside.jsonl'), `${sampleOf('secret')}\n`);
  const bench = await activityBench(t, {
    deployment: { inputs_dir: directory, ...(sample_bytes !== undefined && { sample_bytes }) },
  });
  const dependencies: Dependencies = bench.dependencies;
  const read: Inputs['read'] = (samples, limit) =>
    readSamples(requestOf({ samples, limit: limit ?? null }), dependencies).then(
      ({ samples: read }) => read,
    );
  return {
    directory,
    read,
    readText: async (text, limit) => {
      await writeFile(path.join(directory, 'given.jsonl'), text);
      return await read({ path: 'given.jsonl' }, limit);
    },
  };
}

const refused = (...texts: (RegExp | string)[]) => faultOf('InvalidBatchRequest', ...texts);
const lines = (...rows: string[]): string => rows.map((row) => `${row}\n`).join('');

describe('samples in a file', () => {
  test('come back line by line, as they were written', async (t) => {
    const { readText } = await inputs(t);
    const rows = [sampleOf('é漢😀'), ` ${sampleOf('spaces')} `, sampleOf('x', { float: 1.5e-7 })];
    assert.deepEqual(await readText(lines(...rows)), rows);
  });

  test('may hold the separators that JSON has inside strings', async (t) => {
    const { readText } = await inputs(t);
    const rows = [sampleOf('line \u2028 and paragraph \u2029'), sampleOf('next \u0085')];
    assert.deepEqual(await readText(lines(...rows)), rows);
  });

  test('of more levels than what writes them takes are refused', async (t) => {
    const { readText } = await inputs(t);
    const deep = sampleOf('x', { extra_env_info: { deep: 0 } }).replace(
      '0',
      '['.repeat(10_000) + ']'.repeat(10_000),
    );
    await assert.rejects(
      readText(lines(sampleOf('x'), deep)),
      refused(
        'samples row 1 (given.jsonl:2): expected at most 512 levels of lists and objects, got more',
      ),
    );
  });

  test('with more names of members than anybody reads are refused before they are built', async (t) => {
    const { readText } = await inputs(t, 1e8);
    const names = (count: number): string =>
      Array.from({ length: count }, (_, at) => `"${at.toString(36)}":0`).join(',');
    const with_names = (count: number): string =>
      sampleOf('x', { extra_env_info: { a: 0 } }).replace('"a":0', names(count));
    await assert.rejects(
      readText(lines(sampleOf('x'), with_names(600_000))),
      refused(
        'samples row 1 (given.jsonl:2): expected at most 524288 different names of members, got more',
      ),
    );
    // Lists may have as many entries as they like.
    const grid = sampleOf('x', { extra_env_info: { grid: Array(600_000).fill([1]) } });
    assert.equal((await readText(lines(grid))).length, 1);
  });

  test('of one line that no string can hold is refused, and the process continues', async (t) => {
    const { directory, read } = await inputs(t);
    await writeFile(path.join(directory, 'long.jsonl'), `${sampleOf('x')}\n`);
    await truncate(path.join(directory, 'long.jsonl'), 2 ** 30);
    await assert.rejects(
      read({ path: 'long.jsonl' }),
      refused('samples.path: cannot read "long.jsonl"', 'line 2: expected at most 67108864 bytes'),
    );
    assert.equal((await read({ path: 'long.jsonl' }, 1)).length, 1);
  });

  test('are no more than planning can hold: those behind the limit are not counted', async (t) => {
    const { readText } = await inputs(t);
    // Room for a million characters.
    const rows = Array.from({ length: 300 }, () => sampleOf('x'.repeat(4000)));
    await assert.rejects(
      readText(lines(...rows)),
      refused('samples: expected at most 1000000 characters of samples', 'split them'),
    );
    assert.equal((await readText(lines(...rows), 200)).length, 200);
  });

  test('may lack the last newline, and end with empty lines or Windows line ends', async (t) => {
    const { readText } = await inputs(t);
    const rows = [sampleOf('a'), sampleOf('b')];
    for (const text of [rows.join('\n'), `${rows.join('\n')}\n\n \n`, `${rows.join('\r\n')}\r\n`])
      assert.deepEqual(await readText(text), rows);
  });

  test('may be found below inputs_dir, by a relative or an absolute path, or a link within it', async (t) => {
    const { directory, read } = await inputs(t);
    await mkdir(path.join(directory, 'deep', '..hidden'), { recursive: true });
    const file = path.join(directory, 'deep', '..hidden', 'a.jsonl');
    await writeFile(file, lines(sampleOf('x')));
    await symlink(file, path.join(directory, 'link.jsonl'));
    for (const name of [
      'deep/..hidden/a.jsonl',
      './deep/../deep/..hidden/a.jsonl',
      file,
      'link.jsonl',
    ])
      assert.deepEqual(await read({ path: name }), [sampleOf('x')], name);
  });

  test('are read up to the limit: what follows is not looked at', async (t) => {
    const { readText } = await inputs(t);
    const rows = [sampleOf('a'), sampleOf('b')];
    assert.deepEqual(await readText(lines(...rows, 'broken'), 2), rows);
    assert.deepEqual(await readText(lines(...rows), 5), rows);
  });
});

describe('a path', () => {
  for (const name of ['../outside.jsonl', 'a/../../outside.jsonl', '/etc/passwd', '.', '..']) {
    test(`${name} leads out of inputs_dir and is refused`, async (t) => {
      const { read } = await inputs(t);
      await assert.rejects(
        read({ path: name }),
        refused(/^samples\.path: expected a file below inputs_dir, got /),
      );
    });
  }

  test('through a symbolic link out of inputs_dir is refused', async (t) => {
    const { directory, read } = await inputs(t);
    await symlink('../outside.jsonl', path.join(directory, 'link.jsonl'));
    await symlink('..', path.join(directory, 'up'));
    for (const name of ['link.jsonl', 'up/outside.jsonl'])
      await assert.rejects(
        read({ path: name }),
        refused('samples.path: expected a file below inputs_dir, got a link out of it'),
      );
  });

  test('to a file that is not there is refused, and named', async (t) => {
    const { read } = await inputs(t);
    await assert.rejects(
      read({ path: 'no.jsonl' }),
      refused('samples.path: cannot read "no.jsonl"', 'ENOENT'),
    );
    await assert.rejects(read({ path: 'a\0b' }), refused('samples.path: cannot read'));
  });

  test('that cannot be read is named as the request names it, with inputs_dir and no other path', async (t) => {
    const { directory, read } = await inputs(t);
    await mkdir(path.join(directory, 'folder'));
    await writeFile(path.join(directory, 'file'), '');
    await symlink('loop', path.join(directory, 'loop'));
    await symlink('../outside.jsonl', path.join(directory, 'out'));
    const names = [
      'no.jsonl',
      'folder',
      'file/deeper',
      'loop',
      'out',
      'a\0b',
      'x'.repeat(300),
      '../outside.jsonl',
    ];
    for (const name of names) {
      await assert.rejects(read({ path: name }), ({ message }: Error) => {
        assert.match(
          message,
          /^samples\.path: (cannot read|expected a file below inputs_dir, got)/,
        );
        assert.ok(message.endsWith(`(inputs_dir of the worker's temporal.yaml: ${directory})`));
        assert.ok(!message.replace(directory, '').includes(path.dirname(directory)), message);
        return true;
      });
    }
    await rm(directory, { recursive: true });
    await assert.rejects(read({ path: 'no.jsonl' }), ({ message }: Error) => {
      assert.match(message, /the worker's inputs_dir cannot be read: ENOENT/);
      return true;
    });
  });

  test('to a directory is refused, not tried again and again', async (t) => {
    const { directory, read } = await inputs(t);
    await mkdir(path.join(directory, 'folder'));
    await assert.rejects(read({ path: 'folder' }), refused('samples.path: cannot read "folder"'));
  });
});

describe('samples that are wrong', () => {
  const good = sampleOf('good');

  const cases: [string, string, RegExp][] = [
    [
      'a torn line',
      lines(good, good.slice(0, 30), good),
      /^samples row 1 \(given\.jsonl:2\): expected a JSON object, got "\{\\"message_log.*" \(column 31: expected a comma or \}, got the end\)$/,
    ],
    [
      'a line that is no object',
      lines(good, good, '5'),
      /^samples row 2 \(given\.jsonl:3\): \(input\): expected object, got 5$/,
    ],
    [
      'an empty line in between',
      lines(good, '', good),
      /^samples row 1 \(given\.jsonl:2\): expected a JSON object, got ""/,
    ],
    ['no samples at all', '', /^samples: expected at least one sample, got an empty file$/],
    ['only empty lines', '\n\n', /^samples: expected at least one sample, got an empty file$/],
    [
      'an unknown task',
      lines(good, sampleOf('x', { task_name: 'chess' })),
      /^samples row 1 \(given\.jsonl:2\): task_name: No environment found for task type: chess; expected one of task \(environments of temporal.yaml\)$/,
    ],
    [
      'a column of the row',
      lines(sampleOf('x', { total_reward: 1 })),
      /^samples row 0 \(given\.jsonl:1\): total_reward: this column is written by the rollout/,
    ],
    [
      'a lost integer',
      lines(good, `${good.slice(0, -1)},"id":9007199254740993}`),
      /^samples row 1 \(given\.jsonl:2\): the integer 9007199254740993 is beyond 2\^53/,
    ],
    [
      'columns of a data set',
      lines(good, '{"id":1,"question":"6 times 7?","answer":"42"}'),
      /^samples row 1 \(given\.jsonl:2\): message_log: expected a sample, whose prompt is message_log, got columns "id", "question", "answer"; probably columns=\{"question": "prompt", "answer": "extra_env_info\.ground_truth"\} of start_batch and stream \(Python\) maps them; a column that the environment reads by its own name: "answer": "extra_env_info\.answer"\n/,
    ],
    [
      'a field of a message',
      lines('{"message_log":[{"role":1,"content":"x"}],"task_name":"task"}'),
      /^samples row 0 \(given\.jsonl:1\): message_log\.0\.role: expected string, got 1$/,
    ],
  ];
  for (const [what, line] of [
    ['a key', '-----BEGIN PRIVATE KEY-----'],
    ['a line of settings', 'password: hunter2hunter2'],
    ['a text in JSON', '"hunter2hunter2"'],
    ['a list in JSON', '["hunter2hunter2"]'],
  ] as const)
    test(`because they are ${what} are refused without a word of it`, async (t) => {
      const { readText } = await inputs(t);
      await assert.rejects(readText(lines(line)), ({ message }: Error) => {
        assert.match(
          message,
          /^samples row 0 \(given\.jsonl:1\): expected a JSON object, got a line of \d+ characters that does not begin with \{/,
        );
        assert.doesNotMatch(message, /BEGIN|hunter2/);
        return true;
      });
    });

  for (const [what, text, expected] of cases) {
    test(`because of ${what} are refused by row`, async (t) => {
      const { readText } = await inputs(t);
      await assert.rejects(readText(text), refused(expected));
    });
  }

  const told = async (reading: Promise<unknown>): Promise<string[]> => {
    const error: unknown = await reading.catch((thrown: unknown) => thrown);
    assert.ok(error instanceof Fault);
    return error.message.split('\n');
  };

  test('for one cause are reported in one line, with all their rows', async (t) => {
    const { readText } = await inputs(t);
    const lost = sampleOf('x', { task_name: 'math' });
    const [what, ...others] = await told(
      readText(lines(...Array.from({ length: 12 }, () => lost))),
    );
    assert.deepEqual(others, []);
    assert.match(
      what ?? '',
      /^samples rows 0 to 11 \(given\.jsonl:1\): task_name: No environment .*; add math: \{ kind: math \} to environments of temporal.yaml and start the worker again$/,
    );
    const mixed = Array.from({ length: 16 }, (_, row) => (row % 2 === 0 && row > 3 ? good : '{}'));
    const fields = (await told(readText(lines(...mixed)))).map(
      (line) => line.split(': expected')[0],
    );
    assert.deepEqual(
      fields,
      ['message_log', 'task_name'].map(
        (name) => `samples rows 0 to 3, 5, 7, 9, 11 and 2 more (given.jsonl:1): ${name}`,
      ),
    );
  });

  test('for different causes are reported up to ten, then reading stops', async (t) => {
    const { readText } = await inputs(t);
    const many = await told(
      readText(lines(...Array.from({ length: 5000 }, (_, row) => `x${row}`))),
    );
    assert.equal(many.length, 11);
    assert.equal(many[10], '… and more');
  });

  test('of a client that put them are named by its rows, not by lines of a file that nobody has seen', async (t) => {
    const { directory, read } = await inputs(t);
    await mkdir(path.join(directory, '.samples'));
    await writeFile(path.join(directory, '.samples', 'ab.jsonl'), lines(good, '5'));
    await assert.rejects(
      read({ path: '.samples/ab.jsonl' }),
      refused(/^samples row 1: \(input\): expected object, got 5$/),
    );
  });

  test('beyond the limit do not matter', async (t) => {
    const { readText } = await inputs(t);
    assert.deepEqual(await readText(lines(good, '{}'), 1), [good]);
  });
});

describe('samples in the request', () => {
  test('are checked like those in a file', async (t) => {
    const { read } = await inputs(t);
    const sample = JSON.parse(sampleOf('x')) as object;
    assert.deepEqual(await read([sample, sample]), [sampleOf('x'), sampleOf('x')]);
    await assert.rejects(
      read([sample, { ...sample, task_name: 'chess' }]),
      refused(/^samples row 1: task_name: No environment found for task type: chess/),
    );
    await assert.rejects(
      read([sample, null]),
      refused(/^samples row 1: \(input\): expected object, got null$/),
    );
    const lost = { ...sample, id: 2 ** 53 };
    await assert.rejects(read([lost]), refused('samples row 0: the integer 9007199254740992'));
  });
});

const openFiles = async (): Promise<number> => (await readdir('/proc/self/fd')).length;
const noProc = process.platform === 'linux' ? false : 'needs /proc';

describe('reading a file', () => {
  test('only in part closes it all the same', { skip: noProc }, async (t) => {
    const { readText } = await inputs(t);
    const text = lines(...Array.from({ length: 5000 }, () => sampleOf('x'.repeat(100))));
    await readText(text, 1);
    const before = await openFiles();
    for (let i = 0; i < 5; i++) await readText(text, 1);
    await eventually('those files to be closed', async () => (await openFiles()) <= before + 1);
  });

  test('does not end a line at a line separator inside a string, which JSON allows', async (t) => {
    const { readText } = await inputs(t);
    const row = `{"message_log":[{"role":"user","content":"a\u2028b\u2029c\u0085d"}],"task_name":"task"}`;
    assert.deepEqual(await readText(lines(row)), [row]);
  });
});

test('a sample without what its environment compares with is refused with row and field, before anything is generated', async (t) => {
  const { environment } = await mathOf(t);
  const bench = await activityBench(t, { environments: { math: environment } });
  const rows = ['42', 42, undefined].map(
    (ground_truth) =>
      JSON.parse(sampleOf('x', { task_name: 'math', extra_env_info: { ground_truth } })) as unknown,
  );
  await assert.rejects(
    readSamples(requestOf({ samples: rows }), bench.dependencies),
    refused(
      'samples row 1: extra_env_info.ground_truth: expected a string, got 42',
      'samples row 2: extra_env_info.ground_truth: expected a string, got nothing',
    ),
  );
  const [good] = rows;
  await readSamples(requestOf({ samples: [good] }), bench.dependencies);
});

/** As temporal.yaml makes it. */
async function mathOf(t: TestContext): Promise<{ environment: ExactEnvironment }> {
  const factory = createEnvironmentFactory({
    settings: { math: EnvironmentSettings.parse({ kind: 'math' }) },
    env: {},
    report: (message) => assert.fail(message),
  });
  t.after(() => factory.close());
  return { environment: await factory.create('math') };
}
