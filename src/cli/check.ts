import { parseArgs } from 'node:util';
import { describeError } from '../platform/errors.js';
import { plain, plainJson } from '../platform/plain.js';
import { checkDeployment } from '../workers/check/check-deployment.js';
import type { Finding } from '../workers/check/finding.js';
import type { Config } from '../workers/config.js';
import { loadConfig } from '../workers/config.js';

const MARKS = { ok: '  ok   ', limited: 'limited', broken: 'BROKEN ' } as const;
const COLOURS = { ok: 32, limited: 33, broken: 31 } as const;

/** Checks everything that temporal.yaml names. The exit code is 1 if something is broken. */
export async function checkCommand(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      config: { type: 'string', default: './temporal.yaml' },
      json: { type: 'boolean', default: false },
    },
  });
  const found = await check(values.config);
  for (const finding of found)
    console.log(values.json ? plainJson(JSON.stringify(finding)) : lineOf(finding));
  const broken = found.filter(({ state }) => state === 'broken').length;
  if (!values.json) console.log(broken === 0 ? '\nnothing is broken' : `\n${broken} broken`);
  return broken === 0 ? 0 : 1;
}

async function check(file: string): Promise<Finding[]> {
  let config: Config;
  try {
    config = await loadConfig(file);
  } catch (error) {
    const remedy = 'the file is strict: see temporal.yaml of the project for its form';
    return [{ part: file, state: 'broken', what: describeError(error), remedy }];
  }
  return await checkDeployment(config, process.env);
}

function lineOf({ part, state, what, remedy }: Finding): string {
  const mark = process.stdout.isTTY ? `\u001b[${COLOURS[state]}m${MARKS[state]}\u001b[0m` : MARKS[state]; // prettier-ignore
  const todo = remedy === undefined ? '' : `\n         -> ${plain(remedy)}`;
  return `${mark}  ${plain(part)}: ${plain(what)}${todo}`;
}
