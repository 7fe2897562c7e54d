import { findExample } from '../../dev/example.js';
import { endStack, join } from '../../dev/join.js';
import { howToUse, stackOf } from '../../dev/folder-claim.js';
import { up } from '../../dev/up.js';
import { plain } from '../platform/plain.js';
import { UsageError } from '../platform/command.js';
import { FLAG, TEXT, integerOf, optionsIn } from '../platform/arguments.js';
import { DEFAULT_FILE } from './settings-file.js';

export async function upCommand(args: string[]): Promise<number> {
  const values = optionsIn(args, {
    exit: FLAG,
    'no-batch': FLAG,
    config: TEXT,
    example: TEXT,
    simulator: TEXT,
    engine: TEXT,
    join: TEXT,
    keep: FLAG,
    end: FLAG,
    lines: FLAG,
  });
  const { config: file, keep } = values;
  const example = values.example === undefined ? null : await findExample(values.example);
  if (example !== null && file !== undefined)
    throw new UsageError('--example: expected no --config beside it, got both');
  const given = file ?? example?.config;
  if (values.lines) return await printLines(given);
  const config = given ?? DEFAULT_FILE;
  if (values.end) return await endStack(config);
  const simulator = values.simulator ?? null;
  const engine = values.engine === undefined ? null : engineUrl(values.engine);
  if (engine !== null && simulator !== null)
    throw new UsageError('--engine: expected no --simulator beside it, got both');
  if (values.join !== undefined) {
    const user = integerOf('--join', { text: values.join, least: 1 });
    return await join({ config, simulator, engine, user, keep });
  }
  if (keep)
    throw new UsageError('--keep: expected --join beside it; without it a stack stays anyway');
  return await up({
    exit: values.exit,
    batch: !values['no-batch'],
    config,
    example,
    built_in: file === undefined && example === null,
    simulator: simulator ?? (engine === null ? (example?.simulator ?? null) : null),
    engine,
    program: null,
  });
}

/** How another terminal reaches the stack that runs. */
async function printLines(config: string | undefined): Promise<number> {
  const running = await stackOf(config);
  if (running === null) {
    console.error(plain(`No stack runs ${config === undefined ? 'here' : `with ${config}`}.`));
    return 1;
  }
  console.log(plain(howToUse(running).join('\n')));
  return 0;
}

/** With `/v1`, which people leave away. */
function engineUrl(text: string): string {
  const bare = text.replace(/\/+$/, '');
  if (!URL.canParse(bare) || !/^https?:/.test(bare))
    throw new UsageError(
      `--engine: expected a URL such as http://127.0.0.1:8000, got ${JSON.stringify(text)}`,
    );
  return bare.endsWith('/v1') ? bare : `${bare}/v1`;
}
