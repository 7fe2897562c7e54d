import { codeBed } from './code-bed.js';
import type { Level } from '../../../src/sandbox/levels.js';

/** A process that plays rollouts one after the other and says what each turn came to, a line of JSON each; then it waits to be killed. */

const [level, rollouts = '[]'] = process.argv.slice(2);
const { rollout } = codeBed({ after: () => undefined }, { level: level as Level });
for (const turns of JSON.parse(rollouts) as string[][]) {
  const { run } = rollout();
  for (const turn of turns) console.log(JSON.stringify(await run(turn).catch(String)));
}
setInterval(() => undefined, 60_000);
