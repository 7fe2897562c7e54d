import { wrapped } from '../client/show/wrapping.js';
import type { Line, TextStyle } from '../client/text-line.js';
import { renderLine } from '../client/text-line.js';
import { describeError } from '../platform/errors.js';
import { isMissing } from '../platform/files.js';
import { nearPath } from '../platform/near-path.js';
import { plainJson, plainLine } from '../platform/plain.js';
import { dieOfInterrupt } from '../platform/process/interrupts.js';
import { checkDeployment } from '../workers/check/check-deployment.js';
import type { Finding } from '../workers/check/finding.js';
import type { Config } from '../workers/config.js';
import { loadConfig } from '../workers/config.js';
import { fileOfStack } from './store.js';
import { styleOf } from './terminal.js';
import { FLAG, TEXT, optionsIn } from '../platform/arguments.js';
import { DEFAULT_FILE } from './settings-file.js';

const MARKS = { ok: '  ok   ', limited: 'limited', broken: 'BROKEN ' } as const;
const INKS = { ok: 'green', limited: 'yellow', broken: 'red' } as const;

/** Checks everything that temporal.yaml names. The exit code is 1 if something is broken. */
export async function checkCommand(args: string[]): Promise<number> {
  const values = optionsIn(args, { config: TEXT, json: FLAG });
  const found = await check(values.config);
  const style = styleOf();
  for (const finding of found)
    console.log(
      values.json ? plainJson(JSON.stringify(finding)) : linesOf(finding, style).join('\n'),
    );
  if (!values.json) console.log(`\n${summaryOf(found)}`);
  return found.some(({ state }) => state === 'broken') ? 1 : 0;
}

export function summaryOf(found: readonly Pick<Finding, 'state' | 'waits'>[]): string {
  const [broken, limited] = (['broken', 'limited'] as const).map(
    (state) => found.filter((finding) => finding.state === state).length,
  );
  const counts = [
    ...(broken === 0 ? [] : [`${broken} broken`]),
    ...(limited === 0 ? [] : [`${limited} limited`]),
  ];
  if (found.some(({ waits }) => waits))
    return `${counts.join(', ')}: rollouts wait, as no worker is known to run for each task queue`;
  return broken === 0 ? ['nothing is broken', ...counts].join(', ') : counts.join(', ');
}

async function check(given: string | undefined): Promise<Finding[]> {
  const file = await fileOfStack(given);
  let config: Config;
  try {
    config = await loadConfig(file ?? DEFAULT_FILE);
  } catch (error) {
    const isAbsent = error instanceof Error && isMissing(error.cause);
    const remedy = isAbsent
      ? 'docs/engines.md has one to copy ("From zero"); --config FILE names another'
      : 'correct that; docs/configuration.md has every key';
    return [{ part: 'settings', state: 'broken', what: inOneLine(describeError(error)), remedy }];
  }
  dieOfInterrupt();
  const found = await checkDeployment(config, { env: process.env, file });
  if (file === given || file === undefined) return found;
  const what = `${nearPath(file)}, of the stack that runs`;
  return [{ part: 'settings', state: 'ok', what }, ...found];
}

/** An error has its fields in lines of their own. */
const inOneLine = (text: string): string => text.replace(/:\n\s+/, ': ').replaceAll(/\n\s+/g, '; ');

function linesOf({ part, state, what, remedy }: Finding, style: TextStyle): string[] {
  const [first = '', ...rest] = wrapped(
    plainLine(`${part}: ${what}`),
    style.columns - INDENT.length,
  );
  const todo = remedy === undefined ? [] : wrapped(plainLine(remedy), style.columns - TODO.length);
  const lines: Line[] = [
    [{ text: MARKS[state], ink: INKS[state] }, '  ', first],
    ...rest.map((line) => [INDENT + line]),
    ...todo.map((line, at) => [(at === 0 ? TODO : ' '.repeat(TODO.length)) + line]),
  ];
  return lines.map((line) => renderLine(line, style));
}
const INDENT = ' '.repeat(9);
const TODO = `${INDENT}-> `;
