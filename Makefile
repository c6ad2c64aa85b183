# make demo   real flights through windows, early firings and late rows
# make check  the fast checks: linters, and the tests that need no Spark
# make test   the checks and tests of every change, Scala and Python
# make test-all   also the slow tests: kills, executors, Kafka, millions of rows; and both on each Spark version
# make test-slow  the slow tests of a Spark version: a cluster that loses executors, the JAR from a repository, pipelines
# make lines  the counts of docs/platforms/lines.md, from the last test runs on each Spark version
# make simulation   queries under failures without Spark: CASES=, and SEED= for one that failed
# make random   random tests with new seeds: OF=engine, bytewax, faust, kx or turbine; MINUTES=60
# make faults   queries from Kafka to Kafka under kills: KILLS=100
# make soak     a query at a steady rate: MINUTES=480
# make load     the highest sustained rate of a query from Kafka to Kafka, and twice that rate: SECONDS=60
# make docs   the documentation as a site, in .build/site
# make bench  against Spark's own windows and other engines; make bench-full also with millions of keys
# make bench-kafka  from Kafka to Kafka, against other systems: ROWS=1000000
# make wheel  the package for all Spark versions, as it is released; make wheel SPARK=4.2 for one version
#
# Each target sets up its tools in this folder (.venv, .build, dist, target) at its first run.
# SPARK=4.1 uses another Spark version than the default, in a separate environment (.venv-4.1).

# The set-up waits for downloads half of the time, so two steps run in parallel.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += --jobs=2
endif

# With this variable, which containers often set, each Python worker of Spark would compile pandas again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)
JAVAC := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/javac,javac)

# Each version is defined in one place, and read from there.
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' python/mullion/_version.py)
SPARKS := $(shell sed -n 's/.*SparkVersion."\([0-9.]*\)", spark.*/\1/p' project/SparkVersion.scala)
DEFAULT_SPARK := $(shell sed -n 's/.*val default = "\([0-9.]*\)"/\1/p' project/SparkVersion.scala)
SPARK ?= $(DEFAULT_SPARK)
$(if $(filter $(SPARKS),$(SPARK)),,$(error SPARK=$(SPARK) is not supported. Use one of: $(SPARKS)))
SBT_VERSION := $(shell sed -n 's/^sbt.version=//p' project/build.properties)

# Files of another Spark version than the default have its name.
OTHER := $(filter-out $(DEFAULT_SPARK),$(SPARK))
ENV := .venv$(addprefix -,$(OTHER))
IN := $(ENV)/bin
SBT_LAUNCH := .build/sbt-launch-$(SBT_VERSION).jar
# For a JVM that lives for two minutes, the simplest compiler halves the processor time.
SBT = $(JAVA) -Xmx2g -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Xmn600m -Dsbt.color=false -Dsbt.supershell=false -Dsbt.server.autostart=false $(SBT_SPARK) -jar $(SBT_LAUNCH)
# Other Spark versions are compiled against the JARs of their PySpark: Maven Central lacks some of them.
SBT_SPARK = $(if $(OTHER),-Dspark.line=$(OTHER) -Dspark.jars=$(CURDIR)/$(shell echo $(ENV)/lib/python3*/site-packages/pyspark/jars))
# $(call jar_of,SPARK)
jar_of = jvm/target/$(patsubst %,spark-%/,$(filter-out $(DEFAULT_SPARK),$(1)))scala-2.13/mullion-spark-$(1)_2.13-$(VERSION).jar
JAR := $(call jar_of,$(SPARK))
WHEEL_NAME := mullion_spark-$(VERSION)-py3-none-any.whl
# The wheel of the tests, with the JAR of one Spark version.
WHEEL := .build/wheel-$(SPARK)/$(WHEEL_NAME)

# A class data archive of Spark halves the processor time in which each test process starts.
CLASSES := .build/spark-classes-$(SPARK).jsa

SCALA := build.sbt LICENSE NOTICE $(wildcard project/*.sbt project/*.scala project/*.properties) $(shell find jvm/*/src/main -type f)
PACKAGE := pyproject.toml README.md LICENSE $(shell find python/mullion -name '*.py' -o -name py.typed)
CHECKED := $(wildcard python tests scripts examples benchmarks)
SPELT := $(wildcard *.md *.toml *.yml Makefile docs/*.md docs/*/*.md docs/contributing/*.md python/mullion jvm/*/src/main tests/transcripts scripts examples benchmarks/*.py benchmarks/*/*.py benchmarks/*.md)
TYPED := $(wildcard python/mullion tests scripts examples benchmarks)

CHECK_TOOLS := sh scripts/check-tools $(PYTHON) $(JAVA) $(JAVAC)

# $(call quietly,LOG,COMMAND): shows the output of a command only if it fails.
quietly = $(2) > .build/$(1).log 2>&1 < /dev/null || { cat .build/$(1).log >&2; exit 1; }

.PHONY: demo check test test-all test-slow lines simulation random faults soak load docs pictures version bench bench-goals bench-paired bench-tab bench-full bench-kafka venv jar wheel kafka delta s3 publish-local lint lint-python fmt clean
.DELETE_ON_ERROR:

demo: venv
	@$(IN)/python examples/flights.py

# The Scala suites that need no Spark; the Python tests without a session have a marker.
PURE := 'jvm/testOnly dev.mullion.* *DueKeysSuite *KeyRunsSuite *TimerChangesSuite *KeyOrderSuite *OperatorSuite'

# $(call side_by_side,SCALA,PYTEST): runs sbt in the background and pytest in the foreground, because small queries mostly
# wait. The output of sbt is shown only if it fails.
define side_by_side
	@$(SBT) jvm/scalafmtCheckAll $(1) > .build/scala-tests.log 2>&1 < /dev/null & scala=$$!; \
	{ $(IN)/pytest $(2); echo $$? > .build/python-tests.exit; } | tee .build/python-tests.log; \
	python=$$(cat .build/python-tests.exit); \
	wait $$scala || { cat .build/scala-tests.log >&2; echo "The Scala tests failed: .build/scala-tests.log" >&2; exit 1; }; \
	echo "Scala: $$(grep -o 'Passed: Total.*' .build/scala-tests.log | paste -sd ';' -)"; \
	echo "Python: $$(tail -n 1 .build/python-tests.log)"; \
	exit $$python
endef

# Three workers on two cores, each with its own Spark session.
REPORTS := .build/reports/$(SPARK)
DURATIONS := --durations 20 --junitxml $(REPORTS)/python.xml

check: lint-python venv $(SBT_LAUNCH)
	$(call side_by_side,$(PURE),-n 2 -m 'not spark and not slow')

# $(call test_of,NAME): the file of a test. A name without a file is an error.
test_of = $(or $(wildcard tests/*/test_$(1).py tests/*/*/test_$(1).py tests/*/*/*/test_$(1).py),$(error there is no test_$(1).py))

# On other Spark versions than the default: all Scala suites, with every test case, and the Python tests of the code that
# calls Spark. All other code is the same on all versions.
OF_SPARKS := lines configure session refusals functions split stateful stages state_settings recovery restart together chaining \
	transcripts cli connect turbine turbine_process faust_people_in_spark bytewax_windows bytewax_values bytewax_documents \
	kx_random kx_kafka kafka kafka_texts
# Spark 4.0 does not support Global.split, and Scala runs all test cases.
NOT_OF_SPARK := $(if $(filter 4.0,$(SPARK)),split transcripts kx_random)
PYTHON_TESTS := $(if $(OTHER),$(foreach name,$(filter-out $(NOT_OF_SPARK),$(OF_SPARKS)),$(call test_of,$(name))))

# On another Spark version than the default, Scala also runs the test cases that otherwise run in Python.
ifneq ($(OTHER),)
test: export MULLION_SCENARIOS = all
endif

test: $(if $(OTHER),,lint-python) venv kafka $(CLASSES) $(SBT_LAUNCH)
	$(call side_by_side,'jvm/testOnly * -- --exclude-tags=Slow',$(PYTHON_TESTS) -n 3 --dist loadgroup $(DURATIONS) -m 'not slow')

# For other Spark versions than the default. Spark 4.0 has no declarative pipelines.
SLOW_OF_LINES := cluster packages $(if $(filter 4.0,$(SPARK)),,pipelines)

test-slow: venv publish-local $(CLASSES)
	@$(IN)/pytest $(foreach name,$(SLOW_OF_LINES),$(call test_of,$(name))) --junitxml $(REPORTS)/slow.xml

lines: $(ENV)/.requirements
	@$(IN)/python scripts/lines.py

# Tests with kills and counts run alone. Tests that move checkpoints between Spark versions use the wheel of all versions,
# which is built after the wheel of the tests, because both put their JARs into python/mullion/jars.
test-all: lint-python venv kafka delta s3 publish-local $(CLASSES) $(SBT_LAUNCH)
	@$(MAKE) --no-print-directory wheel
	@echo "Scala tests ..."
	@$(call quietly,scala-tests,MULLION_TEST_CACHES=all $(SBT) jvm/scalafmtCheckAll jvm/test)
	@grep -o 'Passed: Total.*' .build/scala-tests.log
	@echo "Python tests ..."
	@MULLION_TEST_CACHES=all $(IN)/pytest -n 3 --dist loadgroup $(DURATIONS)
	@for line in $(filter-out $(SPARK),$(SPARKS)); do \
		echo "Spark $$line ..."; $(MAKE) --no-print-directory test test-slow SPARK=$$line || exit 1; \
	done

# Simulates lives of queries with failures, one per seed. CASES=1000000 for more, SEED= for a failed one.
simulation: $(SBT_LAUNCH)
	@$(SBT) 'spark/Test/runMain org.apache.spark.sql.mullion.operator.simulation.Simulation' < /dev/null

# Random tests with new seeds for MINUTES: OF=engine, bytewax, faust, kx or turbine. SEED= for one round of a known seed.
random: MINUTES := 60
random: venv
	@PYTHONPATH=. $(IN)/python tests/support/campaigns/random_programs.py --of $(OF) --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

# Kills drivers, Python workers and the broker, and compares the published rows with an undisturbed run. The Scala tests
# contain the failing disk.
KILLS ?= 100
faults: venv kafka $(SBT_LAUNCH)
	@$(call quietly,scala-tests,$(SBT) jvm/Test/compile)
	@PYTHONPATH=. $(IN)/python tests/support/campaigns/fault_campaign.py --kills $(KILLS) $(if $(SEED),--seed $(SEED))

# The resources of a query over hours, as a table and a plot in .build/soak. BATCHES=5760 for the batches of eight hours
# without pauses.
MINUTES ?= 480
soak: venv
	@PYTHONPATH=. $(IN)/python tests/support/campaigns/soak.py --minutes $(MINUTES) $(if $(BATCHES),--batches $(BATCHES)) --into .build/soak

# The highest rate with batches under the trigger's interval, and twice that, as a table and a plot in .build/load.
SECONDS ?= 60
load: venv kafka
	@PYTHONPATH=. $(IN)/python tests/support/campaigns/load.py --seconds $(SECONDS) --into .build/load

docs: $(ENV)/.requirements
	@NO_MKDOCS_2_WARNING=1 $(IN)/python -m mkdocs build --quiet
	@echo "The site is in .build/site: $(IN)/python -m http.server --directory .build/site"

# Redraws the pictures of the docs.
pictures: venv
	@$(IN)/python scripts/pictures.py

version:
	@echo $(VERSION)

# Use an idle machine. KEEP=1 writes the results to benchmarks/results.
bench: venv kafka $(ENV)/.bench
	@$(IN)/python benchmarks/run.py $(if $(KEEP),--keep)

# The workloads with goals for speed and memory, in 45 minutes.
bench-goals: venv $(ENV)/.bench
	@$(IN)/python benchmarks/run.py --goals $(if $(KEEP),--keep)

# This version against the one built (make venv) in another checkout, batch by batch: AGAINST=../before
bench-paired: venv $(ENV)/.bench
	@$(IN)/python benchmarks/paired.py $(AGAINST)

# Batches with the tab Windows and without it, and the time and size of the tab's answers
bench-tab: venv $(ENV)/.bench
	@$(IN)/python benchmarks/windows_tab.py

bench-full: venv kafka $(ENV)/.bench .build/flink/.got
	@$(IN)/python benchmarks/run.py --full $(if $(KEEP),--keep)

# From Kafka to Kafka, with a latency at half load: ROWS=1000000
ROWS ?= 1000000
bench-kafka: venv kafka $(ENV)/.bench .build/flink/.got .build/kafka-streams/.got
	@PYTHONPATH=. $(IN)/python benchmarks/kafka_to_kafka.py --rows $(ROWS)

# The environment with the installed wheel, as users have it.
venv: $(ENV)/.installed

jar: $(JAR)

# For the tests with Kafka: the JARs of a broker, and of Spark's connector.
kafka: .build/kafka/.got

# The JAR, with its sources and documentation, in a Maven repository in .build/maven.
publish-local: .build/maven/.got-$(SPARK)

# For the test of tables in Delta Lake.
delta: .build/delta/.got

# For the tests of checkpoints on S3.
s3: .build/s3/.got

# With the JARs of all Spark versions, or of the version in SPARK=. A separate make builds each JAR, because each version
# has its own environment.
IN_WHEEL := $(if $(filter file,$(origin SPARK)),$(SPARKS),$(SPARK))
wheel: $(PACKAGE) $(ENV)/.hatchling
	@for version in $(IN_WHEEL); do \
		echo "Spark $$version ..."; $(MAKE) --no-print-directory jar SPARK=$$version || exit 1; \
	done
	@rm -rf dist
	$(call wheel_of,dist,$(foreach version,$(IN_WHEEL),$(call jar_of,$(version))))
	@echo "The wheel is dist/$(WHEEL_NAME)"

lint-python: $(ENV)/.requirements
	@$(IN)/ruff check --quiet $(CHECKED)
	@$(IN)/ruff format --quiet --check $(CHECKED)
	@$(IN)/mypy --no-error-summary $(TYPED)
	@$(call quietly,imports,PYTHONPATH=python $(IN)/lint-imports)
	@$(IN)/codespell $(SPELT)
	@$(IN)/python scripts/plain_english.py
	@$(IN)/python scripts/old_names.py

lint: lint-python $(SBT_LAUNCH)
	@$(SBT) --warn jvm/scalafmtCheckAll < /dev/null

fmt: $(ENV)/.requirements $(SBT_LAUNCH)
	@$(IN)/ruff check --quiet --fix $(CHECKED)
	@$(IN)/ruff format --quiet $(CHECKED)
	@$(SBT) --warn jvm/scalafmtAll < /dev/null

# Removes the build outputs. The environment stays, because it is slow to create; remove it with rm -r .venv.
clean:
	rm -rf .build dist python/mullion/jars target jvm/target project/target project/project

.build:
	@mkdir -p $@

# Compiled at import, because most of it is never imported.
PIP = $(IN)/python -m pip install --disable-pip-version-check --no-compile

# The tool that builds the wheel. The wheel of the default Spark version needs nothing else in the environment.
$(ENV)/.hatchling: pyproject.toml scripts/requirements.py | .build
	@$(CHECK_TOOLS)
	@test -x $(IN)/python || $(PYTHON) -m venv $(ENV)
	@$(IN)/python scripts/requirements.py wheel > .build/wheel-requirements.txt
	@$(call quietly,pip-wheel,$(PIP) -r .build/wheel-requirements.txt)
	@touch $@

# In steps, because pip must not run twice at a time in one environment.
$(ENV)/.pyspark: $(ENV)/.hatchling
	@echo "Setting up $(ENV) (the first time this downloads PySpark, some 400 MB) ..."
	@$(IN)/python scripts/requirements.py spark-$(SPARK) > .build/pyspark-requirements.txt
	@$(call quietly,pip-pyspark,$(PIP) -r .build/pyspark-requirements.txt)
	@touch $@

$(ENV)/.requirements: $(ENV)/.pyspark
	@$(IN)/python scripts/requirements.py dev demo docs wheel spark-$(SPARK) > .build/requirements.txt
	@$(call quietly,pip,$(PIP) -r .build/requirements.txt)
	@touch $@

$(ENV)/.bench: pyproject.toml $(ENV)/.requirements
	@$(IN)/python scripts/requirements.py bench > .build/bench-requirements.txt
	@$(call quietly,pip-bench,$(PIP) -r .build/bench-requirements.txt)
	@touch $@

# The launcher downloads everything else that sbt needs, except the JARs of other Spark versions than the default.
SBT_URL := https://repo1.maven.org/maven2/org/scala-sbt/sbt-launch/$(SBT_VERSION)/sbt-launch-$(SBT_VERSION).jar
$(SBT_LAUNCH): project/build.properties | .build $(if $(OTHER),$(ENV)/.pyspark)
	@$(CHECK_TOOLS)
	@echo "Getting sbt $(SBT_VERSION) ..."
	@$(PYTHON) -c 'import sys, urllib.request; urllib.request.urlretrieve(*sys.argv[1:])' $(SBT_URL) $@

$(CLASSES): scripts/spark_classes.py $(ENV)/.requirements
	@$(call quietly,spark-classes,SPARK_SUBMIT_OPTS=-XX:ArchiveClassesAtExit=$@ $(IN)/python $<)
	@touch $@

.build/kafka/.got: scripts/kafka.ivy.xml | $(ENV)/.pyspark .build
	@echo "Getting Kafka ..."
	@rm -rf .build/kafka
	@$(call quietly,ivy-kafka,$(JAVA) -cp "$$($(IN)/python -c 'import pyspark; print(pyspark.__path__[0])')/jars/*" \
		org.apache.ivy.Main -ivy scripts/kafka.ivy.xml -types jar bundle \
		-retrieve '.build/kafka/[conf]/[artifact]-[revision](-[classifier]).[ext]')
	@touch $@

.build/delta/.got: scripts/delta.ivy.xml | $(ENV)/.pyspark .build
	@echo "Getting Delta Lake ..."
	@rm -rf .build/delta
	@$(call quietly,ivy-delta,$(JAVA) -cp "$$($(IN)/python -c 'import pyspark; print(pyspark.__path__[0])')/jars/*" \
		org.apache.ivy.Main -ivy scripts/delta.ivy.xml -types jar bundle \
		-retrieve '.build/delta/[conf]/[artifact]-[revision](-[classifier]).[ext]')
	@touch $@

# S3A for Spark, and an S3-compatible server in a separate environment.
.build/s3/.got: scripts/s3.ivy.xml pyproject.toml | $(ENV)/.requirements .build
	@echo "Getting S3 ..."
	@rm -rf .build/s3
	@$(call quietly,ivy-s3,$(JAVA) -cp "$$($(IN)/python -c 'import pyspark; print(pyspark.__path__[0])')/jars/*" \
		org.apache.ivy.Main -ivy scripts/s3.ivy.xml -types jar bundle \
		-retrieve '.build/s3/jars/[artifact]-[revision](-[classifier]).[ext]')
	@$(PYTHON) -m venv .build/s3/venv
	@$(IN)/python scripts/requirements.py s3 > .build/s3-requirements.txt
	@$(call quietly,pip-s3,.build/s3/venv/bin/python -m pip install --disable-pip-version-check -r .build/s3-requirements.txt)
	@touch $@

# The Parquet reader and the Kafka connector of PyFlink.
.build/flink/.got: scripts/flink.ivy.xml | $(ENV)/.pyspark .build
	@echo "Getting Flink's connectors ..."
	@rm -rf .build/flink
	@$(call quietly,ivy-flink,$(JAVA) -cp "$$($(IN)/python -c 'import pyspark; print(pyspark.__path__[0])')/jars/*" \
		org.apache.ivy.Main -ivy scripts/flink.ivy.xml -types jar bundle -retrieve '.build/flink/[artifact]-[revision].[ext]')
	@touch $@

.build/kafka-streams/.got: scripts/kafka-streams.ivy.xml | $(ENV)/.pyspark .build
	@echo "Getting Kafka Streams ..."
	@rm -rf .build/kafka-streams
	@$(call quietly,ivy-kafka-streams,$(JAVA) -cp "$$($(IN)/python -c 'import pyspark; print(pyspark.__path__[0])')/jars/*" \
		org.apache.ivy.Main -ivy scripts/kafka-streams.ivy.xml -types jar bundle \
		-retrieve '.build/kafka-streams/[artifact]-[revision](-[classifier]).[ext]')
	@touch $@

$(JAR): $(SCALA) python/mullion/_version.py | $(SBT_LAUNCH)
	@echo "Building the JAR for Spark $(SPARK) ..."
	@$(call quietly,assembly,$(SBT) jvm/assembly)
	@touch $@

.build/maven/.got-$(SPARK): $(JAR)
	@echo "Publishing to .build/maven ..."
	@rm -rf .build/maven/dev/mullion/mullion-spark-$(SPARK)_2.13
	@$(call quietly,publish,$(SBT) jvm/publish)
	@touch $@

# $(call wheel_of,FOLDER,JARS)
define wheel_of
	@echo "Building the wheel ..."
	@rm -rf python/mullion/jars && mkdir python/mullion/jars && cp $(2) python/mullion/jars
	@$(call quietly,wheel,$(IN)/python -m hatchling build -t wheel -d $(1))
endef

$(WHEEL): $(JAR) $(PACKAGE) | $(ENV)/.requirements
	$(call wheel_of,$(@D),$(JAR))
	@touch $@

$(ENV)/.installed: $(WHEEL) $(ENV)/.requirements
	@$(call quietly,install,$(PIP) --no-deps --force-reinstall $(WHEEL))
	@touch $@
