import { spawn } from 'node:child_process';
import { readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { format, resolveConfig } from 'prettier';
import type { Question, Rendered } from './cases.js';
import { everyCase, keyOf, verdictOf } from './cases.js';

/**
 * Writes renderings.json: `node --import tsx test/gateway/templates/record.ts PYTHON FOLDER`, with the templates of the
 * trl wheel (`trl/chat_templates/*.jinja`) in the folder.
 */

const [, , python = 'python3', folder = '.'] = process.argv;
const child = spawn(python, [path.join(import.meta.dirname, 'render.py'), folder], {
  stdio: ['pipe', 'pipe', 'inherit'],
});
const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
let turn = Promise.resolve();
const ask = (question: Question & { name: string }): Promise<Rendered> => {
  const answer = turn.then(async () => {
    child.stdin.write(`${JSON.stringify(question)}\n`);
    return JSON.parse(String((await lines.next()).value)) as Rendered;
  });
  turn = answer.then(() => undefined);
  return answer;
};

const names = (await readdir(folder))
  .filter((file) => file.endsWith('.jinja') && !file.endsWith('_training.jinja'))
  .map((file) => path.basename(file, '.jinja'))
  .sort();
const recorded: Record<string, Record<string, [shared: number, rest: string] | string>> = {};
for (const name of names) {
  const texts: (typeof recorded)[string] = {};
  let before = '';
  const render = async (question: Question): Promise<Rendered> => {
    const rendered = await ask({ name, ...question });
    const key = keyOf(question);
    if (texts[key] !== undefined) return rendered;
    if ('error' in rendered) texts[key] = rendered.error;
    else {
      let shared = 0;
      while (shared < before.length && before[shared] === rendered.text[shared]) shared += 1;
      texts[key] = [shared, rendered.text.slice(shared)];
      before = rendered.text;
    }
    return rendered;
  };
  const verdicts: string[] = [];
  for (const one of everyCase())
    for (const cut of [false, true]) {
      const verdict = await verdictOf(render, { ...one, cut }).catch(String);
      if (!cut) verdicts.push(verdict.slice(0, 1));
      if (verdict.startsWith('Error')) console.log(name, one, cut, verdict);
    }
  console.log(`${name}: '${verdicts.join('').replace(/.../g, '$& ').trim()}',`);
  recorded[name] = texts;
}
await turn;
child.stdin.end();
const file = path.join(import.meta.dirname, 'renderings.json');
const style = await resolveConfig(file);
await writeFile(file, await format(JSON.stringify(recorded), { ...style, filepath: file }));
