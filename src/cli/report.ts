import type { Target } from '../../viewer/report/report.js';
import { writeReport } from '../../viewer/report/report.js';
import { readBundle } from '../../viewer/shell.js';
import { UsageError } from '../platform/command.js';
import { plain } from '../platform/plain.js';
import { rangeOf, TEXT, optionsAndWordsIn } from '../platform/arguments.js';
import { targetIn } from './show/show-options.js';
import { withStoreThatAnswers } from './store.js';

export async function reportCommand(args: string[]): Promise<number> {
  const { values, positionals } = optionsAndWordsIn(args, {
    config: TEXT,
    output: { ...TEXT, short: 'o' },
    steps: TEXT,
    'max-size': { ...TEXT, default: '20' },
  });
  const targets = targetsOf(positionals, values.steps);
  const file = values.output ?? `${positionals.join('+').replaceAll('/', '-')}.html`;
  const max_bytes = bytesOf(values['max-size']);
  const bundle = await readBundle();
  const { rollouts, files } = await withStoreThatAnswers(values.config, ({ store }) =>
    writeReport(targets, { store, bundle, file, max_bytes }),
  );
  const bytes = files.reduce((sum, one) => sum + one.bytes, 0);
  const more = files.length === 1 ? '' : ` and ${files.length - 1} more beside it`;
  console.log(plain(`${file}${more}: ${rollouts} rollouts, ${(bytes / 1e6).toFixed(1)} MB`));
  return 0;
}

const MOST = 2;

function targetsOf(positionals: readonly string[], steps: string | undefined): Target[] {
  const between = steps === undefined ? null : rangeOf('--steps', { text: steps, of: 'step' });
  const targets = positionals.flatMap((text): Target[] => {
    const found = targetIn(text);
    if (found === null) return [];
    const { row = null, repeat = null } = found.place ?? {};
    return [{ id: found.batch_id, steps: between, row, repeat }];
  });
  if (targets.length > 0 && targets.length === positionals.length && targets.length <= MOST)
    return targets;
  const got = positionals.length === 0 ? 'none' : JSON.stringify(positionals.join(' '));
  throw new UsageError(`expected one or two of ID, ID/ROW and ID/ROW-REPEAT, got ${got}`);
}

function bytesOf(text: string): number {
  const megabytes = Number(text);
  if (text.trim() !== '' && megabytes > 0 && Number.isFinite(megabytes)) return megabytes * 1e6;
  throw new UsageError(`--max-size: expected a number of megabytes, got ${JSON.stringify(text)}`);
}
