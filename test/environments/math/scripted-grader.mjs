/** Speaks the grader's protocol and does what each answer says; its id goes to the log file when it starts. */
import { appendFileSync, existsSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const [log, start = 'ready'] = process.argv.slice(2);
appendFileSync(log, `${process.pid}\n`);
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

if (start === 'fail') {
  console.error('ModuleNotFoundError: no math_verify');
  process.exit(1);
}
if (start === 'garbage') process.stdout.write('hello\n');
if (start === 'ready') say({ ready: true });

const once = (flag) => {
  const isFirst = !existsSync(flag);
  if (isFirst) writeFileSync(flag, '');
  return isFirst;
};

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, answer } = JSON.parse(line);
  const [what, argument] = answer.split(' ');
  const good = { id, score: 1, extracted_answer: `${process.pid}`, last: false };
  const behaviours = {
    good: () => say(good),
    wait: () => setTimeout(() => say(good), Number(argument)),
    last: () => say({ ...good, last: true }),
    crash: () => process.exit(7),
    'crash-once': () => (once(argument) ? process.exit(7) : say(good)),
    hang: () => undefined,
    'hang-once': () => (once(argument) ? undefined : say(good)),
    spin: () => {
      for (;;);
    },
    garbage: () => process.stdout.write('Traceback (most recent call last):\n'),
    'wrong-id': () => say({ ...good, id: id + 1 }),
    twice: () => {
      say(good);
      say(good);
    },
    'twice-later': () => {
      say(good);
      setTimeout(() => say(good), 50);
    },
    'bad-score': () => say({ ...good, score: 'NaN' }),
    huge: () => process.stdout.write('x'.repeat(3 * 2 ** 20)),
    fault: () => say({ id, fault: 'timeout', message: 'comparing took more than 5 s', last: true }),
  };
  behaviours[what]();
});
