import { codeBed } from './code-bed.js';

/** A process that holds an interpreter, with an orphan of its code in it, until it is killed: for `worker.test.ts`. */

const [level, name] = process.argv.slice(2);
const { rollout } = codeBed(
  { after: () => undefined },
  { ...(level === '' ? {} : { level: level as 'unsafe' }) },
);
const said = await rollout().run(`import ctypes, os, time
ready, done = os.pipe()
for times in range(2):
    if os.fork() == 0:
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(15, b'${name ?? ''}', 0, 0, 0)
            os.write(done, b'x')
            time.sleep(100)
        os._exit(0)
os.read(ready, 1) + os.read(ready, 1)`);
console.log(`said ${said}`);
