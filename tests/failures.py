#!/usr/bin/env python3
"""failures.py JUNIT_XML: the failed tests of a CTest report, with the end of what each said."""

import sys
import xml.etree.ElementTree

for case in xml.etree.ElementTree.parse(sys.argv[1]).getroot().iter('testcase'):
    if case.get('status') == 'fail':
        said = (case.findtext('system-out') or '').strip().splitlines()
        print(f'FAIL {case.get("name")}')
        print('\n'.join('     ' + line[:300] for line in said[-25:]))
