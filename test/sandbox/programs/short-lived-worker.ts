import { openLife, programs } from './program-bed.js';

/** A process that starts a program of this name in the background of another one, and waits to be killed. */

const [name = ''] = process.argv.slice(2);
const life = await openLife(programs({ after: () => undefined }));
const script = `touch ${name}; cp /bin/sleep /tmp/${name}; setsid /tmp/${name} 1000 & echo there; exec /tmp/${name} 1000`;
const running = await life.start({
  argv: ['/bin/bash', '-c', script],
  env: life.variables('program'),
});
while (!running.tail().includes('there')) await new Promise((resolve) => setTimeout(resolve, 20));
console.log('there');
setInterval(() => undefined, 60_000);
