import { realpath } from 'node:fs/promises';
import path from 'node:path';
import { copyExamples } from '../../dev/example.js';
import { UsageError } from '../platform/command.js';
import { plain } from '../platform/plain.js';
import { PROJECT_ROOT } from '../platform/project-root.js';
import { optionsAndWordsIn } from '../platform/arguments.js';

const OWN = path.join(PROJECT_ROOT, 'examples');

/** An installed package is no place to try and change things in. */
export async function examplesCommand(args: string[]): Promise<number> {
  const { positionals } = optionsAndWordsIn(args, {});
  const [folder = 'examples', ...others] = positionals;
  if (others.length > 0)
    throw new UsageError(`examples: expected one FOLDER, got ${positionals.length}`);
  if ((await realpath(folder).catch(() => null)) === (await realpath(OWN)))
    throw new UsageError(`${folder}: expected another folder, got that of the examples themselves`);
  await copyExamples(OWN, folder);
  console.log(plain(`${folder} has the examples; files that were there are as they were`));
  return 0;
}
