/**
 * Takes README's picture, `npm run picture`: plays the batch of `npm start`, writes its report, and has Chromium
 * (`ROLLOUT_CHROMIUM`, or the one in /usr/bin) draw it into docs/pictures.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const root = fileURLToPath(new URL('../', import.meta.url));
const folder = path.join(root, 'docs', 'pictures');
const scratch = mkdtempSync(path.join(tmpdir(), 'rollouts-picture-'));
const run = (...args) =>
  execFileSync(process.execPath, [path.join(root, 'dist', 'src', 'cli', 'main.js'), ...args], {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });

const id = /trajectories\/(.+)\/rollouts\.jsonl/.exec(run('up', '--exit'))[1];
const report = path.join(scratch, 'report.html');
run('report', id, '-o', report);
const browser = await chromium.launch({
  executablePath: process.env.ROLLOUT_CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox'],
});
const page = await browser.newPage({ viewport: { width: 760, height: 860 } });
const shots = [];
for (const place of ['', '/0-0?turn=1&token=40']) {
  await page.goto(`${pathToFileURL(report).href}#/${id}${place}`);
  await page.waitForSelector('.rollouts, .readout');
  shots.push(`data:image/png;base64,${(await page.screenshot()).toString('base64')}`);
}
await page.setViewportSize({ width: 2 * 760 + 12, height: 860 });
await page.goto('about:blank');
const images = shots.map((shot) => `<img src="${shot}">`).join('');
await page.setContent(`<body style="margin:0;display:flex;gap:12px;background:#8a8f98">${images}`);
mkdirSync(folder, { recursive: true });
await page.screenshot({ path: path.join(folder, 'viewer.png') });
await browser.close();
rmSync(scratch, { recursive: true });
